# A function for scripts that test the demo's page. Source this file after redis.sh.

# install_chromium installs chromium where no browser of its kind is. Tests of the page then fail without one. Where none can be
# had they are skipped.
install_chromium() {
  has_chromium || install chromium chromium chromium || true
  if has_chromium; then
    export REQUIRE_CHROMIUM=1
  else
    echo "chromium can't be installed: the demo's page is not tested" >&2
  fi
}

has_chromium() { command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null
