# Functions for scripts that look for releases of other modules. Source this file at the top of the repository.

# released tells whether module $1 has version $2.
released() { go list -m "$1@$2" >/dev/null 2>&1; }

# listed prints the releases of the module $1 that a proxy lists, the newest last.
listed() { go list -m -versions -f '{{range .Versions}}{{println .}}{{end}}' "$1" | grep -v -e - -e '^$' | sort -uV; }

# unlisted prints releases of the module $1 after $2 that a proxy has but does not list. Up to two names in a row may be missing
# between two of them: a proxy can lack a release and have the one after it.
unlisted() {
  local module=$1 major minor patch next ahead release
  IFS=. read -r major minor patch <<<"$2"
  for next in minor patch; do
    ahead=1
    while [ $ahead -le 3 ]; do
      if [ $next = minor ]; then release=$major.$((minor + ahead)).0; else release=$major.$minor.$((patch + ahead)); fi
      if released "$module" "$release"; then
        echo "$release"
        IFS=. read -r major minor patch <<<"$release"
        ahead=1
      else
        ahead=$((ahead + 1))
      fi
    done
  done
}

# next_major prints the path and the first version of module $1 after the major version of $2.
next_major() {
  local module=$1 major=${2%%.*}
  major=$((${major#v} + 1))
  [ $major = 1 ] || module=${module%/v[0-9]*}/v$major
  echo "$module v$major.0.0"
}
