package fakenvml

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// OnMachine is a shell script that mounts the machine's files over those of the mount
// namespace that it runs in. Its arguments are the folder and a program to become.
// Where the kernel has no /proc/modules there is nothing to mount over, so /proc
// becomes a folder of links and of the machine's files.
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

// WriteFiles writes what the kernel and the driver show of the machine into dir,
// to be mounted over the real folders: proc/modules, proc/driver (the driver's
// version, its GPUs, and the capabilities of MIG with their device minors) and
// pci, which stands for /sys/bus/pci/devices. It shows the state as it is now.
// The folders of MIG instances do not follow later changes; the list of device
// minors has every instance that is possible.
func (s State) WriteFiles(dir string) error {
	s = s.complete()
	files := map[string]string{
		"proc/modules":                                "nvidia 54575104 0 - Live 0x0000000000000000 (O)\n",
		"proc/driver/nvidia/version":                  fmt.Sprintf("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  %s  Release Build\n", s.Driver),
		"proc/driver/nvidia-caps/mig-minors":          s.migMinors(),
		"proc/driver/nvidia-caps/sys-minors":          "",
		"proc/driver/nvidia/capabilities/mig/config":  "DeviceFileMinor: 1\n",
		"proc/driver/nvidia/capabilities/mig/monitor": "DeviceFileMinor: 2\n",
	}
	for _, c := range s.GPUs {
		// The kernel's bus ids are lower case with a domain of four digits, the driver's have eight.
		id := strings.ToLower(strings.TrimPrefix(c.PCIBusID, "0000"))
		gpu := "proc/driver/nvidia/gpus/" + id + "/"
		files[gpu+"information"] = fmt.Sprintf("Model: \t\t %s\nIRQ:   \t\t 0\nGPU UUID: \t %s\nBus Type: \t PCIe\nBus Location: \t %s\nDevice Minor: \t %d\n", c.Name, c.UUID, id, c.Minor)
		for _, m := range c.Instances {
			gi := fmt.Sprintf("proc/driver/nvidia/capabilities/gpu%d/mig/gi%d/", c.Minor, m.ID)
			files[gi+"access"] = fmt.Sprintf("DeviceFileMinor: %d\n", migMinor(c.Minor, m.ID))
			for _, ci := range m.Computes {
				files[fmt.Sprintf("%sci%d/access", gi, ci.ID)] = fmt.Sprintf("DeviceFileMinor: %d\n", migMinor(c.Minor, m.ID)+1+ci.ID)
			}
		}
		pci := "pci/" + id + "/"
		files[pci+"vendor"] = "0x10de\n"
		files[pci+"device"] = fmt.Sprintf("0x%04x\n", c.PCIDevice)
		files[pci+"class"] = "0x030200\n" // 3D controller
		files[pci+"numa_node"] = "-1\n"
		files[pci+"resource"] = strings.Repeat("0x0000000000000000 0x0000000000000000 0x0000000000000000\n", 13)
		// The configuration space: identity and class, no capabilities.
		files[pci+"config"] = string([]byte{0xde, 0x10, byte(c.PCIDevice), byte(c.PCIDevice >> 8), 10: 0x02, 11: 0x03, 255: 0})
	}
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			return fmt.Errorf("writing the driver's files: %w", err)
		}
	}
	return nil
}

// migMinor is the device minor of a GPU instance. Those of its eight possible
// compute instances follow it; a GPU has fifteen possible GPU instances.
func migMinor(gpu, gi int) int { return 3 + (gpu*15+gi)*9 }

func (s State) migMinors() string {
	var b strings.Builder
	b.WriteString("config 1\nmonitor 2\n")
	for _, c := range s.GPUs {
		for gi := range 15 {
			fmt.Fprintf(&b, "gpu%d/gi%d/access %d\n", c.Minor, gi, migMinor(c.Minor, gi))
			for ci := range 8 {
				fmt.Fprintf(&b, "gpu%d/gi%d/ci%d/access %d\n", c.Minor, gi, ci, migMinor(c.Minor, gi)+1+ci)
			}
		}
	}
	return b.String()
}
