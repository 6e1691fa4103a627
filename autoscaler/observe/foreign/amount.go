package foreign

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Amount of a resource: a number, or unbounded.
type Amount struct {
	Number    float64
	Unlimited bool
}

// amountOf converts a Kubernetes quantity.
func amountOf(q *resource.Quantity) *Amount {
	if q == nil {
		return nil
	}
	return &Amount{Number: q.AsApproximateFloat64()}
}

// number is a JSON number, integer or not: unstructured objects have either type.
type number float64

// UnmarshalJSON implements json.Unmarshaler.
func (n *number) UnmarshalJSON(text []byte) error {
	var f json.Number
	if err := json.Unmarshal(text, &f); err != nil {
		return fmt.Errorf("%q is not a number", text)
	}
	v, err := strconv.ParseFloat(f.String(), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Errorf("%q is not a number", text)
	}
	*n = number(v)
	return nil
}
