package dcgm

import (
	"fmt"
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// minInterval is DCGM's own limit: faster watches slow the workload, and Hopper
// refuses them.
const minInterval = 100 * time.Millisecond

// source reaches DCGM through its worker only.
type source struct {
	reader *reader // of the worker
	worker *collect.Worker
}

// New opens the library and gives a Source. Read connects, and reconnects
// whenever the host engine was lost. It fails with ErrNoLibrary or
// ErrLibraryTooOld, and with ErrInUse while another Source of the process is
// open.
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
	s := &source{reader: newReader(o)}
	s.worker = collect.NewWorker(timeout, ErrHanging, ErrClosed, func() error {
		defer inUse.Store(false)
		return s.reader.close()
	})
	return s, nil
}

// Watch sets the fields and the interval of the host engine's samples. Fields
// that the library does not know are left out and counted as not supported in
// each Reading. It takes effect with the next Read.
func (s *source) Watch(fields []uint16, every time.Duration) error {
	if every < minInterval {
		return fmt.Errorf("watching DCGM fields every %s: the least is %s", every, minInterval)
	}
	return s.worker.Do(func() { s.reader.want(fields, every) })
}

// Pace sets which fields are sampled more rarely. It takes effect with the next Watch.
func (s *source) Pace(slower map[uint16]time.Duration) {
	_ = s.worker.Do(func() { s.reader.slower = slower }) // Watch says it where DCGM hangs
}

// Read gives the last sample of each wanted field of each GPU and instance. An
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

// Quiesce releases GPUs; see collect.Quiescer.
func (s *source) Quiesce(devs []string) error {
	var err error
	if hung := s.worker.Do(func() { err = s.reader.quiesce(slices.Clone(devs)) }); hung != nil {
		return hung
	}
	return err
}

const (
	// timeout bounds how long Read, Watch and Quiesce wait for DCGM. A longer
	// call continues in the background, and they return ErrHanging until it
	// returns.
	timeout = 10 * time.Second
	// closeTimeout bounds Close: a process has a few seconds to end, and DCGM
	// can hang for minutes.
	closeTimeout = 2 * time.Second
)

// Close disconnects from the host engine. It waits at most 2 s for a hanging
// call; the connection then closes when that call returns.
func (s *source) Close() error { return s.worker.Close(min(s.worker.Timeout, closeTimeout)) }
