package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// subject is a running gpuscale-adapter or prometheus-adapter.
type subject struct {
	title   string
	address string
	cmd     *exec.Cmd
	ended   chan struct{}
	log     string
	admin   *http.Client
}

// program is how to start one: its own flags, in addition to the API server
// library's, which both have.
type program struct {
	title, path, config string
	args                func(lab *lab, config string) []string
}

// lab is shared by every subject of a run.
type lab struct {
	dir        string
	certs      certificates
	api        *apiServer
	prometheus *fakePrometheus
	fleet      fleet
}

// file writes a file into the lab's folder.
func (l *lab) file(name string, content []byte) (string, error) {
	path := filepath.Join(l.dir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return "", fmt.Errorf("writing %s: %w", name, err)
	}
	return path, nil
}

func (l *lab) kubeconfig() (string, error) {
	ca, err := l.file("api-ca.crt", l.certs.authority)
	if err != nil {
		return "", err
	}
	return l.file("kubeconfig", fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: bench, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: adapter, user: {token: ignored}}]
contexts: [{name: bench, context: {cluster: bench, user: adapter}}]
current-context: bench
`, l.api.URL, ca))
}

// start runs an adapter and waits until it can answer.
func (l *lab) start(ctx context.Context, p program) (*subject, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	kubeconfig, err := l.kubeconfig()
	if err != nil {
		return nil, err
	}
	config, err := l.file(p.title+".yaml", []byte(p.config))
	if err != nil {
		return nil, err
	}
	cert, err1 := l.file("server.crt", l.certs.server.cert)
	key, err2 := l.file("server.key", l.certs.server.key)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	s := &subject{
		title: p.title, address: fmt.Sprintf("https://127.0.0.1:%d", port), ended: make(chan struct{}),
		log: filepath.Join(l.dir, p.title+".log"), admin: l.administrator(),
	}
	out, err := os.Create(s.log)
	if err != nil {
		return nil, fmt.Errorf("making a log: %w", err)
	}
	defer out.Close()
	args := []string{
		"--config=" + config, "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port), "--tls-cert-file=" + cert, "--tls-private-key-file=" + key,
		"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
	}
	s.cmd = exec.Command(p.path, append(args, p.args(l, kubeconfig)...)...)
	s.cmd.Stdout, s.cmd.Stderr = out, out
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.title, err)
	}
	go func() {
		_ = s.cmd.Wait()
		close(s.ended)
	}()
	if err := s.ready(ctx, l.fleet.ask(0)); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// administrator returns a client of a user in system:masters.
func (l *lab) administrator() *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(l.certs.authority)
	cert, err := tls.X509KeyPair(l.certs.admin.cert, l.certs.admin.key)
	if err != nil {
		panic("the certificate just made cannot be read: " + err.Error())
	}
	return &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}}, DisableKeepAlives: true,
	}}
}

// ready waits for an answer to a Pods metric: prometheus-adapter's readyz does
// not wait for its first discovery.
func (s *subject) ready(ctx context.Context, a ask) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	path := "/apis/custom.metrics.k8s.io/v1beta2/namespaces/" + a.namespace + "/pods/*/" + a.pods + "?labelSelector=app%3D" + a.app
	for {
		body, err := s.get(ctx, path)
		if err == nil && strings.Contains(body, `"items":[{`) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s was never ready: %w; last answer: %s; its log ends: %s", s.title, err, body, tail(s.log))
		case <-s.ended:
			return fmt.Errorf("%s has ended: %s", s.title, tail(s.log))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (s *subject) get(ctx context.Context, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.address+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := s.admin.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return string(body), err
}

func (s *subject) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(10 * time.Second):
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("finding a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func tail(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text[max(0, len(text)-1500):]))
}
