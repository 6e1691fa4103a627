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
	// Timeout bounds how long a call waits for NVML; 0 means 10 s. A call that
	// hangs longer goes on in the background, and Read answers ErrHanging until
	// it is back.
	Timeout time.Duration
	// EventWindow is for how long single events are kept; 0 means 5 minutes.
	EventWindow time.Duration
	// Log gets changes of state; nil discards them.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	o.LibraryPath = cmp.Or(o.LibraryPath, libraryName)
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	o.EventWindow = cmp.Or(o.EventWindow, 5*time.Minute)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Source reads NVML. Everything that reaches the library runs in one goroutine;
// a caller waits for it a bounded time, so that a call that hangs holds up only
// that goroutine.
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
// where there is none. It does not open it yet: Read does, and does so again
// after a failure.
func New(o Options) (*Source, error) {
	o = o.withDefaults()
	if err := probe(o.LibraryPath); err != nil {
		return nil, err
	}
	s := &Source{options: o, reader: newReader(o)}
	s.worker = collect.NewWorker(o.Timeout, ErrHanging, ErrClosed, func() error { s.reader.close(); return nil })
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
		s.options.Log.Warn("NVML has some DCGM fields not; their series will be missing", "fields", unknown)
	}
	return s.worker.Do(func() { s.reader.wanted = slices.Compact(wanted) })
}

// Read takes the values of each wanted field of each card and instance.
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

// Quiesce lets go of the cards with these UUIDs and takes the others back.
func (s *Source) Quiesce(cards []string) error {
	return s.worker.Do(func() { s.reader.quiesce(cards) })
}

// Close lets go of NVML. A call that hangs is waited for no longer than the
// timeout.
func (s *Source) Close() error { return s.worker.Close(s.options.Timeout) }
