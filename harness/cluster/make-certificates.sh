# Makes keys and certificates in PEM in a new folder $1: of an authority, and of brokers and clients with the names $2.
set -eu
umask 077
mkdir "$1"
cd "$1"
key='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
openssl req -x509 $key -keyout ca.key -out ca.pem -subj /CN=kafka-chaos-ca -days 30
for name in broker client; do
  openssl req $key -keyout $name.key -out $name.csr -subj /CN=$name
  printf 'subjectAltName=%s' "$2" >$name.extensions
  openssl x509 -req -in $name.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -extfile $name.extensions \
    -out $name.crt
  cat $name.key $name.crt >$name.pem
done
