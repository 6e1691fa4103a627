package nvml

import (
	"fmt"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuscale/gpuscale/exporter/pods"
)

// timeout bounds how long Quiesce waits for a hanging call. The node's readings wait meanwhile,
// for twice that time if the release is undone.
const timeout = 2 * time.Second

// utilWindow is how far back a process' utilization is looked at: the driver
// keeps samples of about the last second.
const utilWindow = 2 * time.Second

// unknownMemory is the driver's value for unknown memory of a process.
const unknownMemory = ^uint64(0)

// Processes lists the processes on GPUs, for pods.Watcher. It keeps the library
// open between calls.
type Processes struct {
	source *Source       // of which no values are read
	busy   chan struct{} // full while the library is in use
}

var _ pods.Processes = (*Processes)(nil)

// NewProcesses looks for the library; it fails with ErrNoLibrary where there is
// none.
func NewProcesses(o Options) (*Processes, error) {
	source, err := New(o)
	return &Processes{source, make(chan struct{}, 1)}, err
}

// Processes lists the processes of every GPU and of its instances. A GPU that
// fails is left out.
func (p *Processes) Processes() ([]pods.GPU, error) {
	p.busy <- struct{}{}
	defer func() { <-p.busy }()
	s := p.source
	if s.gpus.allAsleep() {
		return nil, nil
	}
	if err := s.connect(); err != nil {
		return nil, err
	}
	devices, err := s.gpus.list(s.lib)
	var out []pods.GPU
	for _, d := range devices {
		if d.ret != nvml.SUCCESS {
			continue
		}
		out = append(out, s.lib.usage(d.uuid, -1, d.handle))
		for _, mig := range s.lib.migDevices(d.handle) {
			out = append(out, s.lib.usage(d.uuid, mig.instance, mig.handles...))
		}
	}
	if err != nil || s.gpus.acquired {
		s.close()
	}
	return out, err
}

// Quiesce releases the GPUs with these UUIDs and reacquires the others.
func (p *Processes) Quiesce(gpus []string) error {
	select {
	case p.busy <- struct{}{}:
	case <-time.After(timeout):
		return fmt.Errorf("NVML does not answer within %s", timeout)
	}
	defer func() { <-p.busy }()
	return p.source.Quiesce(gpus)
}

// usage reads the processes of a GPU or of an instance, which has a handle for each of its
// compute instances.
func (l *library) usage(uuid string, instance int, handles ...nvml.Device) pods.GPU {
	dev := pods.GPU{UUID: uuid, Instance: instance, Taken: time.Now(), MemoryKnown: true, BusyKnown: true}
	byPID := map[uint32]*pods.Process{}
	process := func(pid uint32) *pods.Process {
		if byPID[pid] == nil {
			byPID[pid] = &pods.Process{PID: int(pid)}
		}
		return byPID[pid]
	}
	for _, d := range handles {
		dev.MemoryKnown = l.memoryOf(d, process) && dev.MemoryKnown
		dev.BusyKnown = l.busyOf(d, dev.Taken, process) && dev.BusyKnown
	}
	for _, p := range byPID {
		dev.Processes = append(dev.Processes, *p)
	}
	return dev
}

// memoryOf reads which processes have a context and how much memory. A process
// that computes and draws, or runs under MPS, is in several lists with the same
// memory. It reports whether the driver supports it.
func (l *library) memoryOf(d nvml.Device, process func(uint32) *pods.Process) (known bool) {
	lists := []struct {
		symbol string
		read   func() ([]nvml.ProcessInfo, nvml.Return)
	}{
		{"nvmlDeviceGetComputeRunningProcesses_v3", d.GetComputeRunningProcesses},
		{"nvmlDeviceGetMPSComputeRunningProcesses_v3", d.GetMPSComputeRunningProcesses},
		{"nvmlDeviceGetGraphicsRunningProcesses_v3", d.GetGraphicsRunningProcesses},
	}
	for i, list := range lists {
		if !l.has(list.symbol) {
			continue
		}
		infos, ret := list.read()
		if i == 0 {
			known = ret == nvml.SUCCESS
		}
		if ret != nvml.SUCCESS {
			continue
		}
		for _, info := range infos {
			p := process(info.Pid)
			if info.UsedGpuMemory == unknownMemory {
				p.Memory = -1
			} else if p.Memory >= 0 {
				p.Memory = max(p.Memory, int64(min(info.UsedGpuMemory, 1<<62)))
			}
		}
	}
	return known
}

// busyOf reads how much each process computed lately. It reports whether the
// driver supports it: not for instances, nor for a partitioned GPU.
func (l *library) busyOf(d nvml.Device, now time.Time, process func(uint32) *pods.Process) (known bool) {
	if !l.has("nvmlDeviceGetProcessUtilization") {
		return false
	}
	samples, ret := d.GetProcessUtilization(uint64(now.Add(-utilWindow).UnixMicro()))
	if ret == nvml.ERROR_NOT_FOUND {
		return true // no process computed
	}
	if ret != nvml.SUCCESS {
		return false
	}
	type sum struct{ percent, n float64 }
	sums := map[uint32]sum{}
	for _, s := range samples {
		if s.Pid == 0 || s.SmUtil > 100 {
			continue // a slot that was not filled
		}
		sums[s.Pid] = sum{sums[s.Pid].percent + float64(s.SmUtil), sums[s.Pid].n + 1}
	}
	for pid, s := range sums {
		process(pid).Busy = s.percent / s.n / 100
	}
	return true
}
