set -eu
topic=$1; bytes=$2; shift 2
partitions() { # The folders of all partitions, or of the topic's, but never the log of KRaft's metadata.
  for directory; do
    for folder in "$directory"/*; do
      name=${folder##*/}
      case ${name##*-} in '' | *[!0-9]*) continue ;; esac
      [ "${name%-*}" != __cluster_metadata ] || continue
      if [ -d "$folder" ] && { [ -z "$topic" ] || [ "${name%-*}" = "$topic" ]; }; then echo "$folder"; fi
    done
  done
}
lose() { # Files that are there; each is told with its size.
  for file; do
    if [ -f "$file" ]; then stat -c '%s %n' "$file"; rm "$file"; fi
  done
}
