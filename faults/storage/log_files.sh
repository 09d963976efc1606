# Arguments: a topic (empty: all topics), a number of bytes, and the log directories.
set -eu
topic=$1; bytes=$2; shift 2
partitions() { # Prints the folders of the topic's partitions, or of all but KRaft's metadata.
  for directory; do
    for folder in "$directory"/*; do
      name=${folder##*/}
      case ${name##*-} in '' | *[!0-9]*) continue ;; esac
      [ "${name%-*}" != __cluster_metadata ] || continue
      if [ -d "$folder" ] && { [ -z "$topic" ] || [ "${name%-*}" = "$topic" ]; }; then echo "$folder"; fi
    done
  done
}
lose() { # Removes files that exist, and prints each with its size.
  for file; do
    if [ -f "$file" ]; then stat -c '%s %n' "$file"; rm "$file"; fi
  done
}
