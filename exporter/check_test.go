package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/dcgm"
	"github.com/gpuscale/gpuscale/exporter/nvml"
)

// refusing is a source that gives an error only, and asks to stop when it is read again.
type refusing struct {
	err   error
	reads int
	stop  func()
}

func (*refusing) Watch([]uint16, time.Duration) error { return nil }
func (*refusing) Close() error                        { return nil }
func (r *refusing) Read() (*collect.Reading, error) {
	if r.reads++; r.reads > 1 {
		r.stop()
	}
	return nil, r.err
}

// A driver that is not there is reported at once: no retry helps.
func TestCheckOfAnAbsentDriver(t *testing.T) {
	for _, absent := range []error{dcgm.ErrNoDriver, nvml.ErrNoDriver} {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		s := &refusing{err: fmt.Errorf("reading: %w", absent), stop: stop}
		k := checker{config: &config{intervalMS: 1}}
		if _, err := k.read(ctx, s, nil); !errors.Is(err, absent) || s.reads != 1 {
			t.Errorf("%v after %d readings", err, s.reads)
		}
	}
}
