package amount

import (
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/internal/require"
)

// TestAmountsEnd: apimachinery takes hours to parse an amount that is refused here.
func TestAmountsEnd(t *testing.T) {
	for _, text := range []string{"1e111111191999", "-3.5E-0111111191", "1e+123456789"} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), "is out of range") {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"1e9", "500m", "3Gi", "1e-3", "1E0018"} {
		_, err := Parse(text)
		require.NoError(t, err)
	}
	for text, want := range map[string]string{
		`{"spec":{"containers":[{"resources":{"limits":{"x":"1e123456789"}}}]}}`: `spec: containers: [0]: resources: limits: x: "1e123456789" is out of range`,
		`{"spec":{"limit":1e123456789}}`:                                         `spec: limit: "1e123456789" is out of range`,
		`{"metadata":{"labels":{"commit":"1e123456789"}}}`:                       "",
		`{"limits":"2"`: "",
	} {
		if err := CheckJSON([]byte(text)); (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
