package dcgm

import (
	"encoding/binary"
	"math"
	"testing"
	"time"
	"unsafe"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// answer is a dcgmFieldValue_v2 that was taken now. Its value is an int64, a float64 or a text.
func answer(field uint16, status int32, value any) *[4128]byte {
	var raw [4128]byte
	binary.NativeEndian.PutUint16(raw[12:], field)
	binary.NativeEndian.PutUint32(raw[16:], uint32(status))
	binary.NativeEndian.PutUint64(raw[24:], uint64(time.Now().UnixMicro()))
	kind := godcgm.DCGM_FT_INT64
	switch value := value.(type) {
	case int64:
		binary.NativeEndian.PutUint64(raw[32:], uint64(value))
	case float64:
		kind = godcgm.DCGM_FT_DOUBLE
		binary.NativeEndian.PutUint64(raw[32:], math.Float64bits(value))
	case string:
		kind = godcgm.DCGM_FT_STRING
		copy(raw[32:], value)
	}
	binary.NativeEndian.PutUint16(raw[14:], uint16(kind))
	return &raw
}

// verdict calls judge, whose argument has a type of C without a name here.
func verdict[T any](judge func(*T) (collect.Value, string), raw *[4128]byte) (collect.Value, string) {
	return judge((*T)(unsafe.Pointer(raw)))
}

// Each way in which DCGM reports no value, and each invalid value, has its reason.
func TestVerdicts(t *testing.T) {
	int32Blank, int64Blank, blank := godcgm.DCGM_FT_INT32_BLANK, godcgm.DCGM_FT_INT64_BLANK, godcgm.DCGM_FT_FP64_BLANK
	never := answer(203, 0, int64(37))
	clear(never[24:32]) // its time
	for reason, answers := range map[string][]*[4128]byte{
		"": {answer(155, 0, 310.5), answer(203, 0, int64(37)), answer(53, 0, "NVIDIA"), answer(1001, 0, 1.01)},
		collect.DropBlank: {
			answer(155, 0, blank), answer(155, 0, blank+1), answer(203, 0, int64Blank), answer(203, 0, int64Blank+1),
			answer(203, 0, int32Blank), answer(203, 0, int32Blank+1), answer(53, 0, "<<<NULL>>>"), answer(53, 0, "<<<NOT_FOUND>>>"),
			answer(53, 0, ""), answer(203, -14, nil), never,
		},
		collect.DropNotSupported: {
			answer(155, 0, blank+2), answer(155, 0, blank+3), answer(203, 0, int64Blank+2), answer(203, 0, int64Blank+3),
			answer(203, 0, int32Blank+2), answer(203, 0, int32Blank+3), answer(53, 0, "<<<NOT_SUPPORTED>>>"), answer(53, 0, "<<<NOT_PERM>>>"),
			answer(53, 0, "N/A"), answer(53, 0, "[N/A]"), answer(203, -6, nil), answer(203, -16, nil),
		},
		collect.DropImpossible: {
			answer(155, 0, math.NaN()), answer(155, 0, math.Inf(1)), answer(155, 0, 1e31), answer(155, 0, 808334905.), answer(155, 0, -1.),
			answer(156, 0, int64(-5)), answer(203, 0, int64(808334905)), answer(203, 0, int64(101)), answer(204, 0, int64(-1)), answer(1001, 0, 7.),
			answer(250, 0, int64(808334905)), answer(150, 0, int64(808334905)), answer(100, 0, int64(808334905)), answer(237, 0, int64(808334905)),
		},
		collect.DropError: {answer(203, -18, nil), answer(155, -3, nil)},
	} {
		for i, raw := range answers {
			if v, got := verdict(judge, raw); got != reason {
				t.Errorf("%s, answer %d: %+v, %q", reason, i, v, got)
			}
		}
	}
}

// An invalid value is left out and counted under its reason, and no other value is.
func TestNoValues(t *testing.T) {
	for reason, none := range map[string]any{
		collect.DropBlank: "!status:-14", collect.DropNotSupported: "!unsupported", collect.DropImpossible: 808334905, collect.DropError: "!status:-18",
	} {
		t.Run(reason, func(t *testing.T) {
			m := newMachine(t, 2)
			m.set(0, 203, none)
			m.set(0, 140, 45)
			m.set(1, 203, 50)
			r := read(t, m.open(Options{}, 203, 140))
			if has(r.Entities[0], 203) || !has(r.Entities[1], 203) || number(t, r.Entities[0], 140) != 45 {
				t.Errorf("values %+v and %+v", r.Entities[0].Values, r.Entities[1].Values)
			}
			r.Dropped[collect.DropBlank]-- // field 140 of the other GPU
			if r.Dropped[reason] != 1 {
				t.Errorf("dropped %v, want one %s", r.Dropped, reason)
			}
		})
	}
}

// The GPU's own name, which older versions give an instance too, is no profile.
func TestProfileNames(t *testing.T) {
	for name, want := range map[string]bool{
		"3g.40gb": true, "1g.10gb+me": true, "1g.24gb+gfx": true, "1g.24gb+me.all": true, "1g.24gb-me": true, "1g.24gb+me,gfx-me": true,
		"": false, "NVIDIA A100-SXM4-40GB": false, "1g": false, "1c.3g.40gb": false, "3g.40gb ": false, "3g.40gb+": false,
	} {
		if profileName.MatchString(name) != want {
			t.Errorf("%q: want %v", name, want)
		}
	}
}

// A value with a time far in the future would never become stale.
func TestFutureIsImpossible(t *testing.T) {
	newMachine(t, 1)
	var c clock
	s := open(t, Options{now: c.now}, 155)
	read(t, s)
	c.advance(-time.Hour)
	if r := read(t, s); has(r.Entities[0], 155) || r.Dropped[collect.DropImpossible] != 1 {
		t.Errorf("%+v, dropped %v", r.Entities[0], r.Dropped)
	}
}
