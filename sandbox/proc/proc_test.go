package proc

import (
	_ "embed"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/require"
)

func group(t *testing.T) *Group {
	g := NewGroup(slog.New(slog.DiscardHandler))
	t.Cleanup(func() { g.Stop(0, 0) })
	return g
}

func shell(t *testing.T, name, script string) Spec {
	return Spec{Name: name, Path: "/bin/sh", Args: []string{"-c", script}, Log: filepath.Join(t.TempDir(), "logs", name+".log")}
}

func failure(t *testing.T, g *Group) error {
	t.Helper()
	select {
	case <-g.Failed():
	case <-time.After(time.Minute):
		t.Fatal("not reported")
	}
	return g.Err()
}

// panicked is the output of a Go program that panics.
//
//go:embed testdata/panic.txt
var panicked string

func TestDeathIsExplained(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		want   []string
		not    string
	}{
		"exit status": {"for i in $(seq 30); do echo line $i; done; exit 3", []string{"x ended with exit status 3 after", "    line 16\n", "line 30"}, "line 15\n"},
		"status 0":    {"exit 0", []string{"x ended by itself with status 0", "it logged nothing to "}, ""},
		"killed":      {"kill -9 $$", []string{"x was killed from outside (SIGKILL)", "ran out of memory"}, ""},
		"disk":        {"echo 'write db: no space left on device' >&2; exit 1", []string{": the disk is full\n"}, ""},
		"port":        {"echo 'listen tcp 127.0.0.1:80: bind: address already in use'; exit 1", []string{"a port it needs is taken"}, ""},
		"structured":  {`printf '%s\n' '{"level":"fatal","msg":"oh","stacktrace":"main.main\n\tmain.go:1"}'; exit 1`, []string{`    {"level":"fatal","msg":"oh",…`}, "main.go"},
		"panic":       {"echo before; printf '%s' '" + panicked + "'; exit 2", []string{"    panic: no such GPU", "github.com/gpuscale/gpuscale/exporter/collect.(*Power).Read"}, "before"},
		"survived":    {"printf '%s' '" + panicked + "'; echo all is well; echo cannot listen; exit 1", []string{"    panic: no such GPU", "\n    all is well\n    cannot listen"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := group(t)
			_, err := g.Start(shell(t, "x", c.script))
			require.NoError(t, err)
			text := failure(t, g).Error()
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("lacks %q:\n%s", want, text)
				}
			}
			if c.not != "" && strings.Contains(text, c.not) {
				t.Errorf("has %q:\n%s", c.not, text)
			}
		})
	}
}

func TestStopIsNoFailureAndLeavesNoProcess(t *testing.T) {
	g := group(t)
	// This child ignores SIGTERM and has a child of its own.
	stubborn := shell(t, "stubborn", "trap '' TERM; sleep 100 & echo $!; wait; wait; sleep 100")
	_, err := g.Start(stubborn)
	require.NoError(t, err)
	if _, err := g.Start(shell(t, "meek", "sleep 100")); err != nil {
		t.Fatal(err)
	}
	child := 0
	await.For(t, time.Minute, "its child's number", func() error {
		text, err := os.ReadFile(stubborn.Log)
		if err == nil {
			child, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		return err
	})
	g.Stop(200*time.Millisecond, 0, "meek")
	if g.Err() != nil {
		t.Errorf("reported: %v", g.Err())
	}
	gone(t, child)
	if _, err := g.Start(shell(t, "late", "true")); err == nil {
		t.Error("started something after Stop")
	}
}

// TestKilledParentTakesItsChildrenAlong runs the test binary as the parent.
func TestKilledParentTakesItsChildrenAlong(t *testing.T) {
	if log := os.Getenv("PROC_TEST_PARENT"); log != "" {
		p, err := start(Spec{Name: "child", Path: "/bin/sleep", Args: []string{"100"}, Log: log})
		require.NoError(t, err)
		fmt.Printf("child %d\n", p.PID())
		time.Sleep(time.Minute)
		return
	}
	parent := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	parent.Env = append(os.Environ(), "PROC_TEST_PARENT="+filepath.Join(t.TempDir(), "log"))
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	child := 0
	for child == 0 {
		var word string
		_, err := fmt.Fscan(out, &word)
		require.NoError(t, err)
		if word == "child" {
			_, err := fmt.Fscan(out, &child)
			require.NoError(t, err)
		}
	}
	if err := syscall.Kill(child, 0); err != nil {
		t.Fatalf("the child does not run: %v", err)
	}
	_ = parent.Process.Kill()
	_ = parent.Wait()
	gone(t, child)
}

// gone waits until the process has ended; a zombie counts as ended.
func gone(t *testing.T, pid int) {
	t.Helper()
	await.True(t, time.Minute, fmt.Sprintf("process %d is gone", pid), func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, state, _ := strings.Cut(string(stat), ") ")
		return err != nil || strings.HasPrefix(state, "Z")
	})
}
