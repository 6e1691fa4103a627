package dcgm

import (
	"fmt"
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// minInterval is DCGM's own floor: faster watches cost the workload, and Hopper
// refuses them.
const minInterval = 100 * time.Millisecond

// source reaches DCGM through its worker only.
type source struct {
	options Options
	reader  *reader // of the worker
	worker  *collect.Worker
}

// New opens the library and gives a Source. It does not connect yet: Read does,
// and connects again whenever the host engine has gone. It fails with
// ErrNoLibrary or ErrLibraryTooOld, and with ErrInUse while another Source of
// the process is open.
func New(o Options) (collect.Source, error) {
	o = o.withDefaults()
	if o.Mode == Remote {
		if _, _, err := o.endpoint(); err != nil {
			return nil, err
		}
	}
	if err := loadLibrary(o.LibraryPath); err != nil {
		return nil, err
	}
	if !inUse.CompareAndSwap(false, true) {
		return nil, ErrInUse
	}
	s := &source{options: o, reader: newReader(o)}
	s.worker = collect.NewWorker(o.Timeout, ErrHanging, ErrClosed, func() error {
		defer inUse.Store(false)
		return s.reader.close()
	})
	return s, nil
}

// Watch sets the fields wanted and how often the host engine takes them. Fields
// that the library does not know are left out and counted as not supported in
// each Reading. It takes effect with the next Read.
func (s *source) Watch(fields []uint16, every time.Duration) error {
	if every < minInterval {
		return fmt.Errorf("watching DCGM fields every %s: the least is %s", every, minInterval)
	}
	return s.worker.Do(func() { s.reader.want(fields, every) })
}

// Read gives the last sample of each wanted field of each card and instance. An
// error means that nothing could be read; the next Read connects again.
func (s *source) Read() (*collect.Reading, error) {
	var (
		reading *collect.Reading
		err     error
	)
	if hung := s.worker.Do(func() { reading, err = s.reader.read() }); hung != nil {
		return nil, hung
	}
	return reading, err
}

// Quiesce lets go of cards; see collect.Quiescer.
func (s *source) Quiesce(cards []string) error {
	var err error
	if hung := s.worker.Do(func() { err = s.reader.quiesce(slices.Clone(cards)) }); hung != nil {
		return hung
	}
	return err
}

// closeTimeout is how long Close waits at most: a process that is told to end
// has a few seconds, and DCGM can hang for minutes.
const closeTimeout = 2 * time.Second

// Close lets go of the host engine. A call that hangs is waited for no longer
// than 2 s; the host engine is then let go of when it comes back.
func (s *source) Close() error { return s.worker.Close(min(s.options.Timeout, closeTimeout)) }
