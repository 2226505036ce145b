# Functions for scripts that write a part of a page, between two lines that mark it. Source this file.

# require_marks PAGE BEGIN END ends the script if the page lacks one of the two lines.
require_marks() {
  if ! grep -qxF -e "$2" "$1" || ! grep -qxF -e "$3" "$1"; then
    echo "$1: the lines \"$2\" and \"$3\", between which to write, are missing" >&2
    exit 1
  fi
}

# write_between PAGE BEGIN END FILE puts the text of the file between the two lines, with a blank line before and after.
write_between() {
  local page
  page=$(awk -v begin="$2" -v end="$3" -v file="$4" '
    $0 == end { skip = 0 }
    !skip
    $0 == begin { print ""; while ((getline line < file) > 0) print line; print ""; skip = 1 }
  ' "$1")
  printf '%s\n' "$page" >"$1"
}
