# Functions for scripts that check each module. Source this file at the top of the repository.

# Each module has the versions that its own go.mod asks for, not the highest of all that go.work ties together.
export GOWORK=off

# modules prints the directory of each module, that of the library first.
modules() {
  echo .
  git ls-files --cached --others --exclude-standard '*/go.mod' | while IFS= read -r file; do dirname "$file"; done
}

# quick_modules is modules without those that take long to compile what others have written.
quick_modules() { modules | grep -vxE 'benchmarks|examples/frameworks'; }

# in_module DIR COMMAND… runs the command there. If it fails, the script says in which module, and ends.
in_module() {
  local dir=$1
  shift
  (cd "$dir" && "$@") || {
    echo "FAIL: module $(sed -n 's/^module //p' "$dir/go.mod"), in $dir: $*" >&2
    exit 1
  }
}
