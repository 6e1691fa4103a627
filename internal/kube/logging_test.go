package kube

import (
	"errors"
	"testing"
	"time"
)

// TestRepeated: an error is new once, until it has not been returned for a while; of joined errors each counts.
func TestRepeated(t *testing.T) {
	a, b := errors.New("a"), errors.New("b")
	start := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	r := Repeated{}
	for _, c := range []struct {
		after time.Duration
		err   error
		isNew bool
	}{
		{0, errors.Join(a, b), true},
		{time.Second, errors.Join(b, a), false},
		{2 * time.Second, nil, false},
		{3 * time.Second, a, false},
		{4 * time.Second, errors.Join(a, errors.New("c")), true},
		{3*time.Second + forgetAfter, a, false},
		{3*time.Second + forgetAfter, b, true},
	} {
		if got := r.New(c.err, start.Add(c.after)); got != c.isNew {
			t.Errorf("after %s, %v: new %v, want %v", c.after, c.err, got, c.isNew)
		}
	}
}
