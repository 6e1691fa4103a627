package dcgm

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"fmt"
	"slices"
	"time"
	"unsafe"
)

const (
	maxFieldsPerCall = 128 // of one DCGM field group
	// valuesPerCall bounds the buffer: DCGM wants 4 KB for each value, whatever
	// is in it.
	valuesPerCall = 512
)

// buffer is the C memory that values are read into. It is made once and kept.
type buffer struct {
	values   *C.shim_value
	entities []C.shim_entity
	fields   []C.uint16_t
}

func newBuffer() *buffer {
	return &buffer{values: (*C.shim_value)(C.calloc(valuesPerCall, C.sizeof_shim_value))}
}

func (b *buffer) free() {
	C.free(unsafe.Pointer(b.values))
	b.values = nil
}

// latest hands the last value of each entity and field to got, entity by
// entity and fields in order. The value is only good during the call.
func (b *buffer) latest(entities []entityKey, fields []uint16, got func(entity int, v *C.shim_value)) error {
	for part := range slices.Chunk(fields, maxFieldsPerCall) {
		first := 0
		for some := range slices.Chunk(entities, valuesPerCall/len(part)) {
			if err := b.call(some, part); err != nil {
				return err
			}
			for i := range unsafe.Slice(b.values, len(some)*len(part)) {
				v := (*C.shim_value)(unsafe.Add(unsafe.Pointer(b.values), i*C.sizeof_shim_value))
				got(first+i/len(part), v)
			}
			first += len(some)
		}
	}
	return nil
}

func (b *buffer) call(entities []entityKey, fields []uint16) error {
	b.entities, b.fields = b.entities[:0], b.fields[:0]
	for _, e := range entities {
		b.entities = append(b.entities, C.shim_entity{kind: C.uint32_t(e.kind), id: C.uint32_t(e.id)})
	}
	for _, f := range fields {
		b.fields = append(b.fields, C.uint16_t(f))
	}
	code := C.shim_latest(C.uintptr_t(hostHandle), &b.entities[0], C.uint(len(entities)),
		&b.fields[0], C.uint(len(fields)), b.values)
	return callError("reading values", code)
}

func callError(doing string, code C.int) error {
	if code == 0 {
		return nil
	}
	return fmt.Errorf("%s: DCGM: %s (%d)", doing, C.GoString(C.shim_error(code)), int(code))
}

// attributes are what a card says of itself once.
type attributes struct {
	uuid, name, pciBusID, driver string
}

// readAttributes gives a card's attributes; what is blank stays empty.
func readAttributes(gpu uint32) (attributes, error) {
	var a C.shim_attributes
	if code := C.shim_device(C.uintptr_t(hostHandle), C.uint(gpu), &a); code != 0 {
		return attributes{}, callError(fmt.Sprintf("reading attributes of GPU %d", gpu), code)
	}
	text := func(c *C.char) string {
		s := C.GoString(c)
		if isBlankText(s) {
			return ""
		}
		return s
	}
	return attributes{
		uuid: text(&a.uuid[0]), name: text(&a.name[0]),
		pciBusID: text(&a.pci_bus_id[0]), driver: text(&a.driver_version[0]),
	}, nil
}

// event is one XID of a card.
type event struct {
	gpu  uint32
	code int
	at   time.Time
}

const maxEvents = 256

// readEvents gives the XIDs of a watched group since a time, oldest first.
func readEvents(w watch, since time.Time) ([]event, error) {
	var raw [maxEvents]C.shim_event
	var n C.int
	code := C.shim_events(C.uintptr_t(hostHandle), C.uintptr_t(w.group.GetHandle()), C.uintptr_t(w.fields.GetHandle()),
		C.int64_t(since.UnixMicro()), &raw[0], maxEvents, &n)
	if code != 0 {
		return nil, callError("reading XIDs", code)
	}
	var events []event
	for _, e := range raw[:n] {
		if code := float64(e.code); code > 0 && code < int32Blank {
			events = append(events, event{uint32(e.gpu), int(e.code), time.UnixMicro(int64(e.ts))})
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return a.at.Compare(b.at) })
	return events, nil
}
