# Functions for scripts that test on a real Redis. Source this file, call install_redis and start_redis, and call
# stop_redis in a trap on EXIT.

# step says what is done now, and how long all before has taken.
step() { printf '\n== %d:%02d %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*"; }

# install installs a program where it is missing: its name, that of Debian's package, and that of Homebrew's.
install() {
  command -v "$1" >/dev/null && return
  step "install $1"
  if command -v apt-get >/dev/null; then
    local sudo=""
    [ "$(id -u)" = 0 ] || sudo=sudo
    $sudo apt-get update -qq
    # A service would start and take its port; only the programs are wanted.
    $sudo env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq "$2" >/dev/null
  elif command -v brew >/dev/null; then
    brew install --quiet "$3"
  fi
}

install_redis() {
  install redis-server redis-server redis
  command -v redis-server >/dev/null || {
    echo "redis-server is missing: install Redis 6.0 or newer (https://redis.io/docs/install) so that it is on the PATH" >&2
    exit 1
  }
}

redis_dir=""
redis_pid=""

# start_redis starts a server on a free port. Tests find it by REDIS_ADDR, and fail without it.
start_redis() {
  redis_dir=$(mktemp -d)
  for _ in 1 2 3 4 5; do
    local port=$((30000 + RANDOM % 2000)) # above those of servers in tests, below those that systems give to clients
    redis-server --port "$port" --bind 127.0.0.1 --dir "$redis_dir" --save '' --logfile redis.log &
    redis_pid=$!
    for _ in $(seq 100); do
      kill -0 "$redis_pid" 2>/dev/null || continue 2 # the port was taken
      if [ "$(redis-cli -p "$port" info server 2>/dev/null | tr -d '\r' | sed -n 's/^process_id://p')" = "$redis_pid" ]; then
        export REDIS_ADDR=127.0.0.1:$port REQUIRE_REDIS=1
        return
      fi
      sleep 0.05
    done
    kill "$redis_pid" 2>/dev/null || true
  done
  echo "redis-server did not start:" >&2
  cat "$redis_dir/redis.log" >&2
  exit 1
}

stop_redis() {
  [ -z "$redis_pid" ] || kill "$redis_pid" 2>/dev/null || true
  [ -z "$redis_pid" ] || wait "$redis_pid" 2>/dev/null || true
  [ -z "$redis_dir" ] || rm -rf "$redis_dir"
}
