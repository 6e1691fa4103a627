package nvml

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// Options of a Source and of Processes.
type Options struct {
	// LibraryPath is the file of libnvidia-ml.so.1; empty searches as the dynamic
	// loader does.
	LibraryPath string
	// EventWindow is for how long single events are kept; 0 means 5 minutes.
	EventWindow time.Duration
	// Log gets changes of state; nil discards them.
	Log *slog.Logger
}

// timeout bounds how long a call waits for NVML. A longer call continues in the background,
// and Read returns ErrHanging until it returns.
const timeout = 10 * time.Second

func (o Options) withDefaults() Options {
	o.LibraryPath = cmp.Or(o.LibraryPath, libraryName)
	o.EventWindow = cmp.Or(o.EventWindow, 5*time.Minute)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Source reads NVML. Everything that reaches the library runs in one goroutine;
// a caller waits for it a bounded time, so that a hanging call blocks only that
// goroutine.
type Source struct {
	options Options
	reader  *reader // of the worker
	worker  *collect.Worker
}

var (
	_ collect.Source   = (*Source)(nil)
	_ collect.Quiescer = (*Source)(nil)
)

// New looks for the library and gives a Source; it fails with ErrNoLibrary
// where there is none. Read opens it, again after each failure.
func New(o Options) (*Source, error) {
	o = o.withDefaults()
	if err := probe(o.LibraryPath); err != nil {
		return nil, err
	}
	s := &Source{options: o, reader: newReader(o)}
	s.worker = collect.NewWorker(timeout, ErrHanging, ErrClosed, func() error { s.reader.close(); return nil })
	return s, nil
}

// Watch sets the DCGM fields wanted. Those that NVML does not have are logged
// and left out. How often they are taken is how often Read is called.
func (s *Source) Watch(fields []uint16, every time.Duration) error {
	if every < minInterval {
		return fmt.Errorf("reading NVML every %s: the least is %s", every, minInterval)
	}
	can := Fields()
	var wanted, unknown []uint16
	for _, f := range fields {
		if slices.Contains(can, f) {
			wanted = append(wanted, f)
		} else {
			unknown = append(unknown, f)
		}
	}
	slices.Sort(wanted)
	if len(unknown) > 0 {
		s.options.Log.Warn("nvml: fields not supported", "fields", unknown)
	}
	return s.worker.Do(func() { s.reader.wanted = slices.Compact(wanted) })
}

// Read takes the values of each wanted field of each GPU and instance.
func (s *Source) Read() (*collect.Reading, error) {
	var (
		reading *collect.Reading
		err     error
	)
	if hung := s.worker.Do(func() { reading, err = s.reader.read() }); hung != nil {
		return nil, hung
	}
	return reading, err
}

// Quiesce releases the GPUs with these UUIDs and reacquires the others.
func (s *Source) Quiesce(gpus []string) error {
	return s.worker.Do(func() { s.reader.quiesce(gpus) })
}

// Close closes NVML. It waits for a hanging call no longer than the timeout.
func (s *Source) Close() error { return s.worker.Close(timeout) }
