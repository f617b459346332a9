# What .ci/run and .ci/long share: the README's commands as they stand there, and what a machine needs. To be sourced.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CI=true

readme_command() {  # the line of README.md that makes an environment and ends in what matches
  local line
  line=$(sed -n "s/^    \(python3 -m venv .venv .*$1.*\)\$/\1/p" README.md)
  test -n "$line" || { echo "README.md has no command with $1" >&2; exit 1; }
  echo "$line"
}

command=$(readme_command pytest)
install=${command%&& .venv/bin/python -m pytest*}
tests=${command#"$install"&& }

# What some tests need beside Python, where it can be had: shells for their completions, systemd for a user manager of its own,
# another reader of plists, installers of programs. A test that misses one says so and is skipped.
install_everything() {
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    timeout 300 apt-get install -y -q --no-install-recommends zsh fish systemd dbus man-db libplist-utils >/dev/null 2>&1 ||
      echo "not installed: some of zsh, fish, systemd, dbus, man-db, libplist-utils" >&2
  fi
  bash -c "${install% }"
  .venv/bin/pip install -q pipx uv >/dev/null 2>&1 || echo "not installed: some of pipx, uv" >&2
}
