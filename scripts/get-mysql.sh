#!/bin/bash
# Unpacks a MySQL 9 server into FOLDER/mysql-VERSION, beside the system and without changing it, and prints that folder.
#
#   scripts/get-mysql.sh FOLDER
#
# Debian stable has no MySQL, unstable has: its packages are fetched from the mirror that this system uses already, checked
# against Debian's own keys, and unpacked with the C library they were built for. `run` in the folder starts a program of
# the tree with that library.
set -euo pipefail

target=$(realpath -m "${1:?the folder to unpack into}")
keys=/usr/share/keyrings/debian-archive-keyring.gpg
[ -r "$keys" ] || { echo "the keys of Debian's archive are not installed: $keys" >&2; exit 1; }

# Both notations of apt's sources: "URIs: ..." and "deb [...] URI suite ...".
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources} 2>/dev/null |
    sed -nE 's/^URIs:[[:space:]]*//p; s/^deb[[:space:]]+(\[[^]]*\][[:space:]]+)?//p' |
    tr -s '[:space:]' '\n' | grep -E '^[a-z+]+:.*/debian/?$' | head -n 1) || true
[ -n "$mirror" ] || { echo "no Debian mirror among the sources of apt" >&2; exit 1; }

mkdir -p "$target"
work=$(mktemp -d "$target/.mysql-XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/apt/{etc/apt.conf.d,etc/preferences.d,lists/partial,archives/partial} "$work"/debs "$work"/tree/root
: > "$work/apt/status"
echo "deb [signed-by=$keys] $mirror sid main" > "$work/apt/etc/sources.list"
cat > "$work/apt/apt.conf" <<CONF
Dir::Etc "$work/apt/etc";
Dir::Etc::sourceparts "-";
Dir::State "$work/apt";
Dir::State::lists "$work/apt/lists";
Dir::State::status "$work/apt/status";
Dir::Cache "$work/apt";
Dir::Cache::archives "$work/apt/archives";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::Retries "3";
// A frozen mirror's index is past its date; the signature on it is still checked.
Acquire::Check-Valid-Until "false";
CONF
export APT_CONFIG="$work/apt/apt.conf"
apt-get update -qq >&2

version=$(apt-cache policy mysql-server-core | sed -nE 's/^ *Candidate: *([0-9]+\.[0-9]+\.[0-9]+).*/\1/p')
[ -n "$version" ] || { echo "the mirror has no package mysql-server-core" >&2; exit 1; }
home="$target/mysql-$version"
if [ -x "$home/run" ]; then echo "$home"; exit 0; fi

# The server and the libraries it needs; maintainer scripts and the Perl they want are of no use here.
apt-cache depends --recurse --important mysql-server-core |
    grep -E '^(mysql-server-core|lib)' | grep -vE '^lib(perl|db5|gdbm)' | sort -u > "$work/names"
(cd "$work/debs" && xargs apt-get download -qq < "$work/names" >&2)
for package in "$work"/debs/*.deb; do dpkg-deb -x "$package" "$work/tree/root"; done

cat > "$work/tree/run" <<'RUN'
#!/bin/sh
# run PROGRAM ARGUMENTS...: a program of this tree, with the tree's own loader and libraries
here=$(dirname "$(realpath "$0")")/root
set -- "$here$1" "$@"; program=$1; shift 2
for loader in "$here"/usr/lib64/ld-linux*.so.* "$here"/usr/lib/ld-linux*.so.*; do [ -e "$loader" ] && break; done
libraries=$(echo "$here"/usr/lib/*-linux-gnu)
exec "$loader" --library-path "$libraries" "$program" "$@"
RUN
chmod 755 "$work/tree" "$work/tree/run"
"$work/tree/run" /usr/sbin/mysqld --no-defaults --version >&2
mv -T "$work/tree" "$home" 2>/dev/null || [ -x "$home/run" ]
echo "$home"
