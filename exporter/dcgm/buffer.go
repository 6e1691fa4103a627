package dcgm

// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"slices"
	"unsafe"
)

const (
	maxFieldsPerCall    = 127 // of one DCGM field group, whose limit is said to be 128
	maxEntitiesPerGroup = C.SHIM_MAX_ENTITIES
	// valuesPerCall bounds the buffer: DCGM needs 4 KB for each value, whatever
	// its size.
	valuesPerCall = 512
)

// buffer is the C memory that values are read into. It is made once and kept.
type buffer struct{ values *C.shim_value }

func newBuffer() *buffer {
	return &buffer{values: (*C.shim_value)(C.calloc(valuesPerCall, C.sizeof_shim_value))}
}

func (b *buffer) free() {
	C.free(unsafe.Pointer(b.values))
	b.values = nil
}

// latest passes the last value of each entity and field to got, entity by entity and fields in
// order: the last sample of a watch, or with the flag SHIM_LIVE the driver's value. The value is
// valid only during the call. If DCGM refuses several entities at once, they are read one by one,
// and one that fails is passed to failed. latest fails only if the connection is severed.
func (b *buffer) latest(what rectangle, flags C.uint, got func(entity int, v *C.shim_value), failed func(entity int, err error)) error {
	for fields := range slices.Chunk(what.fields, maxFieldsPerCall) {
		read := func(first, n int) error {
			return b.read(what.entities[first:first+n], fields, flags, func(i int, v *C.shim_value) { got(first+i, v) })
		}
		if err := inParts(len(what.entities), valuesPerCall/len(fields), read, failed); err != nil {
			return err
		}
	}
	return nil
}

// inParts calls read for parts of n entities, each of at most size. A part that
// is refused is read one by one.
func inParts(n, size int, read func(first, n int) error, failed func(entity int, err error)) error {
	for first := 0; first < n; first += size {
		count := min(size, n-first)
		err := read(first, count)
		for i := first; err != nil && i < first+count; i++ {
			if severs(err) {
				return err
			}
			if count > 1 {
				if err1 := read(i, 1); severs(err1) {
					return err1
				} else if err1 == nil {
					continue
				}
			}
			failed(i, err)
		}
	}
	return nil
}

func (b *buffer) read(entities []entityKey, fields []uint16, flags C.uint, got func(entity int, v *C.shim_value)) error {
	of := (*C.shim_entity)(unsafe.Pointer(&entities[0])) // an entityKey has the same layout
	code := C.shim_latest(C.uintptr_t(hostHandle), of, C.uint(len(entities)), (*C.uint16_t)(&fields[0]), C.uint(len(fields)), flags, b.values)
	for i := range len(entities) * len(fields) {
		if code == 0 {
			got(i/len(fields), (*C.shim_value)(unsafe.Add(unsafe.Pointer(b.values), i*C.sizeof_shim_value)))
		}
	}
	return callError("reading values", code)
}
