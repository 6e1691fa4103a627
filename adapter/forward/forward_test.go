package forward

import (
	"strings"
	"testing"
	"time"
)

func TestConfigIsJudgedWithFieldPaths(t *testing.T) {
	for _, c := range []struct {
		target Target
		says   string // of the error; "" for none
	}{
		{Target{Service: "keda-operator-metrics-apiserver.keda:443", CAFile: "ca.crt"}, ""},
		{Target{URL: "https://keda.example:6443"}, ""},
		{Target{Service: "a.b", Identity: Caller, CertFile: "c", KeyFile: "k"}, ""},
		{Target{}, "service: give either service or url"},
		{Target{Service: "a.b", URL: "https://x"}, "service: give either"},
		{Target{Service: "https://a"}, `service: "https://a" is not`},
		{Target{Service: "a.b/../c"}, "service"},
		{Target{URL: "http://keda"}, "in the clear"},
		{Target{URL: "https://u:secret@keda"}, "host and port only"},
		{Target{URL: "https://keda/path"}, "host and port only"},
		{Target{Service: "a.b", Identity: Caller}, "certFile: identity"},
		{Target{Service: "a.b", Identity: Caller, CertFile: "c", KeyFile: "k", TokenFile: "t"}, "tokenFile"},
		{Target{Service: "a.b", CertFile: "c"}, "keyFile"},
		{Target{Service: "a.b", CertFile: "c", KeyFile: "k", TokenFile: "t"}, "tokenFile"},
		{Target{Service: "a.b", Identity: "theirs"}, `identity: "theirs"`},
		{Target{Service: "a.b", Timeout: time.Hour}, "timeout"},
	} {
		err := c.target.Validate()
		if (err == nil) != (c.says == "") || err != nil && (!strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%+v: %v, want %q", c.target, err, c.says)
		}
	}
	if u, err := (Target{Service: "keda.ns:443"}).base(); err != nil || u.String() != "https://keda.ns.svc:443" {
		t.Errorf("%v, %v", u, err)
	}
}
