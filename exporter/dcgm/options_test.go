package dcgm

import (
	"strings"
	"testing"
)

// Addresses that users give to -r: Google's manifests for GKE name the node's address without a port, and leave the
// port to DCGM.
func TestEndpoint(t *testing.T) {
	for given, want := range map[string]string{
		"10.128.0.7": "10.128.0.7:5555", "localhost": "localhost:5555", "nvidia-dcgm.gpu-operator.svc": "nvidia-dcgm.gpu-operator.svc:5555",
		"nvidia-dcgm:5555": "nvidia-dcgm:5555", "tcp://node_1:5556": "node_1:5556", "tcp://10.0.0.1": "10.0.0.1:5555",
		"::1": "[::1]:5555", "[fd00::7]": "[fd00::7]:5555", "[::1]:5556": "[::1]:5556",
		"unix:///run/dcgm.sock": "unix /run/dcgm.sock", "/run/dcgm.sock": "unix /run/dcgm.sock",
	} {
		got, unix, err := Options{Address: given}.Endpoint()
		if unix {
			got = "unix " + got
		}
		if err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", given, got, err, want)
		}
	}
	for _, given := range []string{
		"", ":5555", "host:", "host:0", "host:http", "host:70000", "host:1:2", "$(NODE_IP)", "$(NODE_IP):5555", "vsock://3:5555",
		"http://host:5555", "unix://run/dcgm.sock", "host/path", "two words",
	} {
		if got, _, err := (Options{Address: given}).Endpoint(); err == nil || !strings.Contains(err.Error(), "host engine address") {
			t.Errorf("%q: %q, %v; want an error", given, got, err)
		}
	}
}
