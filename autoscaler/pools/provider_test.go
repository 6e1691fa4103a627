package pools

import (
	"reflect"
	"testing"
)

// TestProviderIsSmall: whoever writes a provider writes four methods. What only some
// can do, such as Replace, is an interface of its own.
func TestProviderIsSmall(t *testing.T) {
	if n := reflect.TypeFor[Provider]().NumMethod(); n > 4 {
		t.Errorf("%d methods", n)
	}
	for _, p := range []any{&KWOK{}, &Scale{}, &ASG{}, &Fixed{}, Providers{}} {
		if _, ok := p.(Provider); !ok {
			t.Errorf("%T is no Provider", p)
		}
	}
}
