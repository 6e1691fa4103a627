package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

func TestCommandLine(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	good := write("good.yaml", "prometheus: {url: 'http://127.0.0.1:9090'}\n")
	bad := write("bad.yaml", "prometheus: {url: ''}\ninterval: -1s\n")
	odd := write("odd.yaml", "promethus: {}\n")
	cases := []struct {
		args []string
		out  string
		errs []string
	}{
		{[]string{"--version"}, "gpuscale-adapter ", nil},
		{[]string{"--check", "--config", good}, good + " is valid\n", nil},
		{[]string{"--check", "--config", bad}, "", []string{"bad.yaml", "prometheus.url: is required", "interval: must be positive"}},
		{[]string{"--check", "--config", odd}, "", []string{"odd.yaml", `unknown field "promethus"`}},
		{[]string{"--check"}, "", []string{"--config is required"}},
		{[]string{"--config", dir + "/none.yaml"}, "", []string{"reading configuration", "none.yaml"}},
		{[]string{"--no-such-flag"}, "", []string{"no-such-flag"}},
		{[]string{"--config", good, "--log-level", "loud"}, "", []string{"log-level"}},
		{[]string{"--config", good, "--kubeconfig", dir + "/none"}, "", []string{dir + "/none"}},
	}
	for _, c := range cases {
		var stdout, stderr bytes.Buffer
		err := run(t.Context(), c.args, &stdout, &stderr)
		if (err != nil) != (c.errs != nil) || !strings.HasPrefix(stdout.String(), c.out) {
			t.Errorf("%v: %q, %v", c.args, stdout.String(), err)
		}
		for _, want := range c.errs {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: %v lacks %q", c.args, err, want)
			}
		}
	}
}

func TestBuildInfoIsAsTheCatalogueSays(t *testing.T) {
	reg := prometheus.NewRegistry()
	if err := registerBuildInfo(reg); err != nil {
		t.Fatal(err)
	}
	if n, err := testutil.GatherAndCount(reg, metric.AdapterBuildInfo.Name); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}
