package fakenvml

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// OnMachine is a shell script that mounts the machine's files over those of the mount
// namespace it is run in: its arguments are the folder and a program to become. Where
// the kernel has no /proc/modules there is nothing to mount over, so /proc
// becomes a folder of links beside the files.
const OnMachine = `set -e
dir=$1; shift
mkdir -p "$dir/root"
mount -n -t tmpfs tmpfs "$dir/root"
mkdir "$dir/root/real"
mount -n --rbind /proc "$dir/root/real"
for e in /proc/*; do
	n=${e##*/}
	case $n in driver | modules | [0-9]*) ;; *) ln -s "real/$n" "$dir/root/$n" ;; esac
done
cp -r "$dir/proc/." "$dir/root/"
mount -n --bind "$dir/pci" /sys/bus/pci/devices
mount -n --move "$dir/root" /proc
exec "$@"`

// Command is a program that finds the machine whose State was written to
// dir/state and its files to dir: the library in libDir, the driver's folders of
// /proc, and the PCI devices. It needs root and util-linux, and ends with ctx.
func Command(ctx context.Context, dir, libDir, program string, args ...string) *exec.Cmd {
	args = append([]string{"--mount", "--propagation", "private", "sh", "-c", OnMachine, "sh", dir, program}, args...)
	cmd := exec.CommandContext(ctx, "unshare", args...)
	cmd.Env = append(os.Environ(), EnvState+"="+filepath.Join(dir, "state"), "LD_LIBRARY_PATH="+libDir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}
