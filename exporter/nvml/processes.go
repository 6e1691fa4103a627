package nvml

import (
	"fmt"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuscale/gpuscale/exporter/pods"
)

// utilWindow is how far back a process' utilization is looked at: the driver
// keeps samples of about the last second.
const utilWindow = 2 * time.Second

// unknownMemory is the driver's word for a process whose memory it cannot tell.
const unknownMemory = ^uint64(0)

// Processes tells what each process does on a card, for pods.Watcher. It keeps
// the library open between calls.
type Processes struct {
	options Options
	turn    chan struct{} // taken while the library is in use
	lib     *library      // nil: not open
	cards   map[int]string
	asleep  map[string]bool // card UUIDs that are not touched
}

var _ pods.Processes = (*Processes)(nil)

// NewProcesses looks for the library; it fails with ErrNoLibrary where there is
// none.
func NewProcesses(o Options) (*Processes, error) {
	o = o.withDefaults()
	if err := probe(o.LibraryPath); err != nil {
		return nil, err
	}
	return &Processes{options: o, turn: make(chan struct{}, 1), cards: map[int]string{}}, nil
}

// Processes lists the processes of every card, or of its instances where it is
// cut. A card that fails is left out.
func (p *Processes) Processes() ([]pods.Card, error) {
	p.turn <- struct{}{}
	defer func() { <-p.turn }()
	if p.lib == nil {
		lib, err := open(p.options.LibraryPath, p.options.Log)
		if err != nil {
			return nil, err
		}
		p.lib = lib
	}
	count, ret := p.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		p.release()
		return nil, fmt.Errorf("counting GPUs: %s", word(ret))
	}
	var cards []pods.Card
	for index := range count {
		if p.asleep[p.cards[index]] {
			continue
		}
		device, ret := p.lib.DeviceGetHandleByIndex(index)
		if ret != nvml.SUCCESS {
			continue
		}
		uuid, ret := device.GetUUID()
		if ret != nvml.SUCCESS {
			continue
		}
		p.cards[index] = uuid
		cards = append(cards, p.lib.usage(device, uuid, -1))
		for _, mig := range p.lib.migDevices(device) {
			cards = append(cards, p.lib.usage(mig.handle, uuid, mig.instance))
		}
	}
	return cards, nil
}

// Quiesce lets go of the cards with these UUIDs and takes the others back.
func (p *Processes) Quiesce(cards []string) error {
	select {
	case p.turn <- struct{}{}:
	case <-time.After(p.options.Timeout):
		return fmt.Errorf("%w within %s", ErrHanging, p.options.Timeout)
	}
	defer func() { <-p.turn }()
	p.asleep = map[string]bool{}
	for _, uuid := range cards {
		p.asleep[uuid] = true
	}
	p.release()
	return nil
}

func (p *Processes) release() {
	if p.lib != nil {
		p.lib.close()
		p.lib = nil
	}
}

// usage reads the processes of a card or of an instance, whose handle is d.
func (l *library) usage(d nvml.Device, uuid string, instance int) pods.Card {
	card := pods.Card{UUID: uuid, Instance: instance, Taken: time.Now()}
	byPID := map[uint32]*pods.Process{}
	process := func(pid uint32) *pods.Process {
		if byPID[pid] == nil {
			byPID[pid] = &pods.Process{PID: int(pid)}
		}
		return byPID[pid]
	}
	card.MemoryKnown = l.memoryOf(d, process)
	card.BusyKnown = l.busyOf(d, card.Taken, process)
	for _, p := range byPID {
		card.Processes = append(card.Processes, *p)
	}
	return card
}

// memoryOf reads which processes have a context and how much memory. A process
// that computes and draws, or runs under MPS, is in several lists with the same
// memory. It reports whether the driver tells at all.
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
// driver tells: not for instances, nor for a card that is cut.
func (l *library) busyOf(d nvml.Device, now time.Time, process func(uint32) *pods.Process) (known bool) {
	if !l.has("nvmlDeviceGetProcessUtilization") {
		return false
	}
	samples, ret := d.GetProcessUtilization(uint64(now.Add(-utilWindow).UnixMicro()))
	if ret == nvml.ERROR_NOT_FOUND {
		return true // nobody computed
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
