# A function for scripts that test the demo's page. Source this file after redis.sh.

# require_browsers installs the browsers with those names, of chromium, firefox and webkit, where they are missing. Tests of
# the page in these fail without them then, and skip a browser that can't be had.
require_browsers() {
  local name missing=() packages=()
  for name in "$@"; do
    has_browser "$name" || { missing+=("$name"); packages+=($(browser_packages "$name")); }
  done
  if [ ${#packages[@]} -gt 0 ] && command -v apt-get >/dev/null; then
    step "install ${missing[*]}"
    local sudo=""
    [ "$(id -u)" = 0 ] || sudo=sudo
    $sudo apt-get update -qq >/dev/null 2>&1 || true
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null 2>&1 || true
  fi
  REQUIRE_BROWSERS=
  for name in "$@"; do
    if has_browser "$name"; then
      REQUIRE_BROWSERS+="$name "
    else
      echo "$name can't be installed: the demo's page is not tested in it" >&2
    fi
  done
  export REQUIRE_BROWSERS
}

has_browser() {
  case $1 in
  chromium) any_command chromium chromium-browser google-chrome && any_command chromedriver ;;
  firefox) any_command firefox-esr firefox ;;
  webkit) any_command WebKitWebDriver && any_command Xvfb ;;
  esac
}

any_command() {
  local name
  for name in "$@"; do
    command -v "$name" >/dev/null && return
  done
  return 1
}

# browser_packages prints those of Debian.
browser_packages() {
  case $1 in
  chromium) echo chromium chromium-driver ;;
  firefox) echo firefox-esr ;;
  webkit) echo webkit2gtk-driver xvfb ;;
  esac
}
