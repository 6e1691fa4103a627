package main

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/dcgm"
	"github.com/gpuscale/gpuscale/exporter/nvml"
)

// refusing is a source that gives an error only.
type refusing struct {
	err   error
	reads int
}

func (*refusing) Watch([]uint16, time.Duration) error { return nil }
func (*refusing) Close() error                        { return nil }
func (r *refusing) Read() (*collect.Reading, error)   { r.reads++; return nil, r.err }

// A driver that is not there is reported at once: no retry helps.
func TestCheckOfAnAbsentDriver(t *testing.T) {
	for _, absent := range []error{dcgm.ErrNoDriver, nvml.ErrNoDriver} {
		s := &refusing{err: fmt.Errorf("reading: %w", absent)}
		k := checker{config: &config{intervalMS: 1}}
		if _, err := k.read(t.Context(), s, nil); !errors.Is(err, absent) || s.reads != 1 {
			t.Errorf("%v after %d readings", err, s.reads)
		}
	}
}
