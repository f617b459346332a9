#!/bin/bash
# A real, unprivileged `systemd --user` without a login: unshare --mount namespace.sh PLACE UID REVEALED...
# Becomes the manager itself. Needs root and cgroup v2. All that it mounts is private to its mount namespace.
# PLACE gets the user's home; REVEALED are directories that the user must be able to read although root's home hides them.
set -e
umask 022
place=$1 uid=$2
shift 2
mount --make-rprivate /
mkdir -p "$place/etc" "$place/home" "$place/stash" "$place/cgroup"
cp /etc/passwd /etc/group "$place/etc"
echo "sesu:x:$uid:$uid::$place/home:/bin/bash" >> "$place/etc/passwd"
echo "sesu:x:$uid:" >> "$place/etc/group"
mount --bind "$place/etc/passwd" /etc/passwd
mount --bind "$place/etc/group" /etc/group
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system "/run/user/$uid"
chmod 700 "/run/user/$uid"
# There is no journal here: what services say goes into a file.
mkdir -p "/run/user/$uid/systemd/user/service.d"
printf '[Service]\nStandardError=append:%s\n' "$place/log/services" > "/run/user/$uid/systemd/user/service.d/log.conf"
chown -R "$uid:$uid" "$place/home" "$place/log" "/run/user/$uid"

as_user() { setpriv --reuid="$uid" --regid="$uid" --clear-groups --inh-caps=-all "$@"; }
number=0
for path in "$@"; do
  number=$((number + 1))
  mkdir "$place/stash/$number"
  mount --bind "$path" "$place/stash/$number"
done
for path in "$@"; do
  hidden=
  for ((above = 1; above; )); do
    path=$(dirname "$path")
    [ "$path" = / ] && break
    as_user test -x "$path" || hidden=$path
  done
  [ -z "$hidden" ] || mount -t tmpfs -o mode=755 tmpfs "$hidden"
done
number=0
for path in "$@"; do
  number=$((number + 1))
  [ -e "$path" ] || { mkdir -p "$path"; mount --bind "$place/stash/$number" "$path"; }
done

mount -t cgroup2 cgroup2 /sys/fs/cgroup
group=/sys/fs/cgroup/$(basename "$place")
mkdir -p "$group/manager" "$group/session"
chown -R "$uid:$uid" "$group"
echo $$ > "$group/manager/cgroup.procs"
cd "$place/home"
for manager in /lib/systemd/systemd /usr/lib/systemd/systemd; do [ -x "$manager" ] && break; done
exec env -i HOME="$place/home" USER=sesu SHELL=/bin/bash LANG=C.UTF-8 PATH=/usr/local/bin:/usr/bin:/bin \
  XDG_RUNTIME_DIR="/run/user/$uid" SYSTEMD_LOG_LEVEL=info SYSTEMD_LOG_TARGET=console \
  setpriv --reuid="$uid" --regid="$uid" --clear-groups --inh-caps=-all "$manager" --user
