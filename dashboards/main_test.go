package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/dashboards/boards"
	"github.com/gpuscale/gpuscale/dashboards/preview"
	"github.com/gpuscale/gpuscale/internal/require"
)

// token is the bearer token that the fake of Prometheus requires; credentials are the flags for it.
const token = "t0k3n"

func credentials(t *testing.T) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(token), 0o600))
	return []string{"--prometheus-url", prometheus(t), "--bearer-token-file", file}
}

// prometheus is a fake without series.
func prometheus(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		kind := "vector"
		if strings.HasSuffix(r.URL.Path, "query_range") {
			kind = "matrix"
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"`+kind+`","result":[]}}`)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func run(ctx context.Context, out io.Writer, args ...string) error {
	c := newCommand()
	c.SetArgs(args)
	c.SetOut(out)
	c.SetErr(io.Discard)
	return c.ExecuteContext(ctx)
}

// generate writes what is committed, and removes a deleted board.
func TestGenerate(t *testing.T) {
	names, err := files()
	require.NoError(t, err)
	dir := t.TempDir()
	gone := filepath.Join(dir, boardsDir, "gone.json")
	require.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(gone), 0o755), os.WriteFile(gone, []byte("{}"), 0o600)))
	if err := run(t.Context(), io.Discard, "generate", "--root", dir); err == nil {
		t.Error("wrote into missing folders")
	}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "dashboards/alerts"), 0o755))
	require.NoError(t, run(t.Context(), io.Discard, "generate", "--root", dir))
	for name := range names {
		written, err := os.ReadFile(filepath.Join(dir, name))
		committed, also := os.ReadFile(filepath.Join("..", name))
		if errors.Join(err, also) != nil || !bytes.Equal(written, committed) {
			t.Errorf("%s is out of date (run make generate): %v", name, errors.Join(err, also))
		}
	}
	if there, err := filepath.Glob(filepath.Join(dir, boardsDir, "*.json")); err != nil || len(there) != len(boards.All()) {
		t.Errorf("%d boards, want %d: %v", len(there), len(boards.All()), err)
	}
}

// preview serves until it is stopped, and prints its address.
func TestPreview(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, writer, append([]string{"preview", "--listen", "127.0.0.1:0"}, credentials(t)...)...)
		_ = writer.Close()
	}()
	line := make([]byte, 200)
	n, err := reader.Read(line)
	require.NoError(t, err)
	_, url, _ := strings.Cut(strings.TrimSpace(string(line[:n])), "): ")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+boards.OverviewUID, nil)
	require.NoError(t, err)
	r, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	body, err := io.ReadAll(r.Body)
	_ = r.Body.Close()
	if err != nil || r.StatusCode != http.StatusOK || !bytes.Contains(body, []byte(preview.Label)) {
		t.Errorf("%s: %d, %v", url, r.StatusCode, err)
	}
	stop()
	require.NoError(t, <-done)
}

func TestProblemsAreReported(t *testing.T) {
	for _, c := range []struct {
		args []string
		has  string
	}{
		{[]string{"preview"}, "prometheus"},
		{[]string{"preview", "--prometheus-url", "::"}, "--prometheus-url"},
		{[]string{"draw"}, `"draw" is neither a command nor an argument`},
		{[]string{"preview", "all"}, "neither a command nor an argument"},
	} {
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		if err := run(ctx, io.Discard, c.args...); err == nil || !strings.Contains(err.Error(), c.has) {
			t.Errorf("%v: %v, want something about %s", c.args, err, c.has)
		}
		stop()
	}
}
