package main

import (
	"errors"
	"fmt"
	"math"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// problems of a configuration, each with its field's path.
type problems []error

func (p *problems) add(field, format string, args ...any) {
	*p = append(*p, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
}

// under adds joined problems, with path before the path of each.
func (p *problems) under(path string, err error) {
	if err == nil {
		return
	}
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		*p = append(*p, fmt.Errorf("%s.%w", path, err))
		return
	}
	for _, e := range joined.Unwrap() {
		*p = append(*p, fmt.Errorf("%s.%w", path, e))
	}
}

func (p *problems) given(field, value string) {
	if value == "" {
		p.add(field, "is required")
	}
}

func (p *problems) positive(field string, d metav1.Duration) {
	if d.Duration <= 0 {
		p.add(field, "%s: must be above 0s", d.Duration)
	}
}

func (p *problems) notNegative(field string, d metav1.Duration) {
	if d.Duration < 0 {
		p.add(field, "%s: must not be below 0s", d.Duration)
	}
}

func (p *problems) price(field string, v float64) {
	if !(v >= 0) || math.IsInf(v, 0) {
		p.add(field, "%v: is no price", v)
	}
}

func (p *problems) count(field string, n int) {
	if n < 0 {
		p.add(field, "%d: must not be below 0", n)
	}
}

func (p *problems) share(field string, v float64) {
	if !(v >= 0 && v <= 1) {
		p.add(field, "%v: want a share from 0 to 1", v)
	}
}
