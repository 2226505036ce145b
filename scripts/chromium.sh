# A function for scripts that test the demo's page. Source this file after redis.sh.

# require_chromium installs chromium where no such browser is. Tests of the page fail without it then, and skip where it
# can't be had.
require_chromium() {
  local name
  for name in chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null; then
      export REQUIRE_BROWSER=1
      return
    fi
  done
  if command -v apt-get >/dev/null; then
    step "install chromium"
    local sudo=""
    [ "$(id -u)" = 0 ] || sudo=sudo
    $sudo apt-get update -qq >/dev/null 2>&1 || true
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null 2>&1 || true
  fi
  if command -v chromium >/dev/null; then
    export REQUIRE_BROWSER=1
  else
    echo "chromium can't be installed: the tests of the demo's page are skipped" >&2
  fi
}
