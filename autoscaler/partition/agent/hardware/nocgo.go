//go:build !cgo

package hardware

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// NVML cannot be called by a program that was built without cgo.
type NVML struct{}

// New returns an NVML whose calls all fail.
func New(string, time.Duration) *NVML { return &NVML{} }

var errNoCgo = fmt.Errorf("%w: this program was built without cgo (build it with CGO_ENABLED=1)", ErrNoLibrary)

// Read fails.
func (*NVML) Read(context.Context) (Machine, error) { return Machine{}, errNoCgo }

// Destroy fails.
func (*NVML) Destroy(context.Context, string, int) error { return errNoCgo }

// Create fails.
func (*NVML) Create(context.Context, string, mig.Placement) error { return errNoCgo }

// SetMode fails.
func (*NVML) SetMode(context.Context, string, bool) error { return errNoCgo }
