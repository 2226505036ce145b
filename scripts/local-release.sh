# Functions that release this repository in a clone, and serve the release to go commands. Source this file after
# scripts/modules.sh, at the top of the repository.

library=$(sed -n 's/^module //p' go.mod)

# released_modules prints the directory of each module that gets a tag, that of the library first.
released_modules() { modules | grep -vE '^(benchmarks|examples|internal)(/|$)'; }

# tag_of prints the tag of version $2 of the module in directory $1.
tag_of() { if [ "$1" = . ]; then echo "$2"; else echo "$1/$2"; fi; }

# path_of prints the path of the module in directory $1.
path_of() { if [ "$1" = . ]; then echo "$library"; else echo "$library/$1"; fi; }

# clone_tree clones the repository into $1, on a branch of its own, with what is not committed yet as a commit.
clone_tree() {
  local name
  git clone -q --no-tags . "$1"
  git -C "$1" checkout -q -B release
  for name in user.name user.email user.signingkey gpg.format gpg.program gpg.ssh.program; do
    ! git config "$name" >/dev/null || git -C "$1" config "$name" "$(git config "$name")"
  done
  git diff-index -p --binary HEAD | git -C "$1" apply --allow-empty
  git ls-files -z --others --exclude-standard | tar -c --null -T - | tar -x -C "$1"
  [ -z "$(git -C "$1" status --porcelain)" ] || commit "$1" "What is not committed yet"
}

# commit commits all of clone $1, with message $2.
commit() {
  git -C "$1" config user.name >/dev/null || git -C "$1" config user.name ratelimit
  git -C "$1" config user.email >/dev/null || git -C "$1" config user.email ratelimit@localhost
  git -C "$1" add -A
  git -C "$1" commit -qm "$2"
}

# tag_modules tags version $2 of each module in clone $1, and serves the modules as a proxy of files in $3/cache/download.
# The rest are options of git tag. The library's tag is on HEAD. Those of the other modules are on a commit after it, which
# no branch has: there go.mod names the library's version, without replace, and go.sum its hash.
tag_modules() {
  local clone=$1 version=$2 served=$3 folder sums
  shift 3
  git -C "$clone" tag "$@" -m "$version" "$version"
  sums=$(serve_module "$clone" "$served" . "$version" | sed -nE 's/^.*"(Sum|GoModSum)": "([^"]*)".*/\2/p')
  git -C "$clone" checkout -q --detach
  released_modules | grep -vx . | while IFS= read -r folder; do
    go -C "$clone/$folder" mod edit -dropreplace "$library" -require "$library@$version"
    printf '%s %s %s\n%s %s/go.mod %s\n' "$library" "$version" "${sums%%$'\n'*}" "$library" "$version" "${sums##*$'\n'}" |
      LC_ALL=C sort -o "$clone/$folder/go.sum" - "$clone/$folder/go.sum"
    ! grep -nE '^replace|v0\.0\.0( |$)' "$clone/$folder/go.mod" || {
      echo "$folder/go.mod: a module of the repository that is not the library has no version" >&2
      exit 1
    }
  done
  commit "$clone" "go.mod: modules of $version"
  released_modules | grep -vx . | while IFS= read -r folder; do
    git -C "$clone" tag "$@" -m "$(tag_of "$folder" "$version")" "$(tag_of "$folder" "$version")"
    serve_module "$clone" "$served" "$folder" "$version" >/dev/null
  done
  git -C "$clone" checkout -q release
}

# serve_module downloads a module from clone $1 into the module cache $2, as a proxy does: directory $3 in version $4.
serve_module() {
  as_github "$1" env GOMODCACHE="$2" GOFLAGS=-modcacherw GOPROXY=direct GOSUMDB=off \
    go -C / mod download -json "$(path_of "$3")@$4"
}

# as_github runs a command, to which clone $1 is the repository on GitHub.
as_github() {
  local clone=$1
  shift
  env GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0="url.$clone.insteadOf" GIT_CONFIG_VALUE_0="https://$library" "$@"
}

# use_proxy makes go commands find the modules of the module cache $1, on a module cache of their own, $2, which is empty.
# What others have published comes from the module cache of this machine, or else from the usual proxy.
use_proxy() {
  GOPROXY="file://$1/cache/download,file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)"
  GOFLAGS="$(go env GOFLAGS) -trimpath -modcacherw" # -trimpath: the build cache knows packages of other module caches
  GONOSUMDB=$library GOMODCACHE=$2
  export GOPROXY GOFLAGS GONOSUMDB GOMODCACHE
}
