package dcgm

import (
	"fmt"
	"sync"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// minInterval is DCGM's own floor: faster watches cost the workload, and Hopper
// refuses them.
const minInterval = 100 * time.Millisecond

// source runs everything that reaches DCGM in one goroutine. A caller waits for
// it a bounded time, so that a call that hangs holds up only that goroutine.
type source struct {
	options Options
	reader  *reader // of the goroutine
	jobs    chan func()
	done    chan struct{} // closed when the goroutine has let go of DCGM
	shutErr error         // why that failed; to read after done

	closing sync.Once
	closed  chan struct{}
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
	s := &source{
		options: o, reader: newReader(o), jobs: make(chan func()),
		done: make(chan struct{}), closed: make(chan struct{}),
	}
	go s.run()
	return s, nil
}

// run owns the reader until the Source is closed.
func (s *source) run() {
	defer close(s.done)
	defer inUse.Store(false)
	for {
		select {
		case job := <-s.jobs:
			job()
		case <-s.closed:
			s.shutErr = s.reader.close()
			return
		}
	}
}

// do runs a job in the goroutine and waits for it, both within the timeout. A
// job that is given up still runs to its end.
func (s *source) do(job func()) error {
	deadline := time.NewTimer(s.options.Timeout)
	defer deadline.Stop()
	finished := make(chan struct{})
	select {
	case <-s.closed:
		return ErrClosed
	default:
	}
	select {
	case s.jobs <- func() { defer close(finished); job() }:
	case <-s.closed:
		return ErrClosed
	case <-deadline.C:
		return fmt.Errorf("%w: an earlier call has hung for more than %s", ErrHanging, s.options.Timeout)
	}
	select {
	case <-finished:
		return nil
	case <-s.closed:
		return ErrClosed
	case <-deadline.C:
		return fmt.Errorf("%w within %s", ErrHanging, s.options.Timeout)
	}
}

// Watch sets the fields wanted and how often the host engine takes them. Fields
// that the library does not know are left out and counted as not supported in
// each Reading. It takes effect with the next Read.
func (s *source) Watch(fields []uint16, every time.Duration) error {
	if every < minInterval {
		return fmt.Errorf("watching DCGM fields every %s: the least is %s", every, minInterval)
	}
	return s.do(func() { s.reader.want(fields, every) })
}

// Read gives the last sample of each wanted field of each card and instance. An
// error means that nothing could be read; the next Read connects again.
func (s *source) Read() (*collect.Reading, error) {
	var (
		reading *collect.Reading
		err     error
	)
	if hung := s.do(func() { reading, err = s.reader.read() }); hung != nil {
		return nil, hung
	}
	return reading, err
}

// Close lets go of the host engine. A call that hangs is waited for no longer
// than the timeout; the host engine is then let go of when it comes back.
func (s *source) Close() error {
	s.closing.Do(func() { close(s.closed) })
	select {
	case <-s.done:
		return s.shutErr
	case <-time.After(s.options.Timeout):
		return fmt.Errorf("closing DCGM: %w within %s", ErrHanging, s.options.Timeout)
	}
}
