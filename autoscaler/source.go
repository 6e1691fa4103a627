package main

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"

	"github.com/gpuscale/gpuscale/autoscaler/explain"
	"github.com/gpuscale/gpuscale/internal/buildinfo"
	"github.com/gpuscale/gpuscale/internal/command"
	"github.com/gpuscale/gpuscale/internal/kube"
)

// maxSnapshot bounds the size of a snapshot, at a hundred times that of ten thousand
// nodes.
const maxSnapshot = 1 << 30

// snapshotSource is the source of a snapshot: a file, an address, or the leading replica
// in a cluster.
type snapshotSource struct {
	file, url, tokenFile string
	kubeconfig           string
	namespace, lease     string
	port                 int
	client               kubernetes.Interface // set by fromCluster
}

func (s *snapshotSource) text(ctx context.Context, in io.Reader) (string, error) {
	switch {
	case s.file != "" && s.url != "":
		return "", command.Usage(errors.New("--file and --url: want one of them"))
	case s.file != "":
		text, err := read(in, s.file)
		if err != nil {
			return "", fmt.Errorf("reading the snapshot: %w", err)
		}
		return text, nil
	}
	secret := ""
	if s.tokenFile != "" {
		var err error
		if secret, err = token(s.tokenFile); err != nil {
			return "", fmt.Errorf("--token-file: %w", err)
		}
	}
	if s.url != "" {
		return fromURL(ctx, s.url, secret)
	}
	return s.fromCluster(ctx, secret)
}

// direct does not follow redirects: they would leak the token, since Go's client does not treat its header as
// sensitive.
var direct = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

func fromURL(ctx context.Context, address, secret string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", command.Usage(fmt.Errorf("--url %q: want http://HOST:PORT", address))
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.JoinPath("debug", "snapshot").String(), nil)
	if err != nil {
		return "", fmt.Errorf("querying the autoscaler: %w", err)
	}
	if secret != "" {
		request.Header.Set(tokenHeader, secret)
	}
	kube.AwaitForward(ctx, address)
	answer, err := direct.Do(request)
	if err != nil {
		return "", fmt.Errorf("the autoscaler cannot be reached: %w; is \"kubectl port-forward\" to the leading replica still running?", err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxSnapshot+1))
	if err != nil {
		return "", fmt.Errorf("reading the autoscaler's answer: %w", err)
	}
	if len(text) > maxSnapshot {
		return "", fmt.Errorf("the autoscaler at %s answered with more than %d MiB: not a snapshot", u.Redacted(), maxSnapshot>>20)
	}
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the autoscaler at %s answered %s: %s", u.Redacted(), answer.Status, firstLine(text))
	}
	if bytes.IndexAny(text, "<{") == 0 {
		return "", fmt.Errorf("the autoscaler at %s answered with a web page or JSON, not with a snapshot: is it the autoscaler's port, 9402 unless changed?", u.Redacted())
	}
	return string(text), nil
}

func firstLine(text []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	return line[:min(len(line), 300)]
}

// fromCluster queries the lease holder, through the API server's proxy.
func (s *snapshotSource) fromCluster(ctx context.Context, secret string) (string, error) {
	rc, err := kube.Config(kube.Options{Kubeconfig: s.kubeconfig, UserAgent: component + "/" + buildinfo.Version()})
	if err != nil {
		return "", fmt.Errorf("%w; or name a file (-f) or an address (--url)", err)
	}
	if s.client, err = kubernetes.NewForConfig(rc); err != nil {
		return "", fmt.Errorf("making a client: %w", err)
	}
	lease, err := s.client.CoordinationV1().Leases(s.namespace).Get(ctx, s.lease, metav1.GetOptions{})
	switch {
	case apierrors.IsUnauthorized(err):
		return "", kube.Advised(err)
	case err != nil:
		return "", fmt.Errorf("finding the leader (lease %s/%s): %w; set --namespace and --lease, or --url", s.namespace, s.lease, err)
	}
	leader, _, _ := strings.Cut(ptr.Deref(lease.Spec.HolderIdentity, ""), "_") // POD_uuid
	if leader == "" {
		return "", fmt.Errorf("lease %s/%s has no holder: the autoscaler is not running", s.namespace, s.lease)
	}
	request := s.client.CoreV1().RESTClient().Get().Namespace(s.namespace).Resource("pods").
		Name(fmt.Sprintf("%s:%d", leader, s.port)).SubResource("proxy").Suffix("debug/snapshot")
	if secret != "" {
		request.SetHeader(tokenHeader, secret)
	}
	text, err := request.DoRaw(ctx)
	if err != nil {
		if line := firstLine(text); line != "" {
			err = fmt.Errorf("%w: %s", err, line)
		}
		return "", fmt.Errorf("querying the autoscaler %s/%s: %w; or: kubectl -n %s port-forward pod/%s %d, then --url http://localhost:%d",
			s.namespace, leader, err, s.namespace, leader, s.port, s.port)
	}
	return string(text), nil
}

// refine explains why a pod is not in the snapshot, if a cluster is available.
func (s *snapshotSource) refine(ctx context.Context, err error, name string) error {
	namespace, pod, ok := strings.Cut(name, "/")
	if s.client == nil || !ok || !errors.Is(err, explain.ErrNotFound) {
		return err
	}
	p, asked := s.client.CoreV1().Pods(namespace).Get(ctx, pod, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(asked):
		return fmt.Errorf("pod %s: %w: there is no such pod", name, explain.ErrNotFound)
	case asked != nil:
		return err
	case p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed:
		return fmt.Errorf("pod %s: %w: it has ended (%s)", name, explain.ErrNotPending, p.Status.Phase)
	case len(p.Spec.SchedulingGates) > 0:
		return fmt.Errorf("pod %s: %w: its scheduling gate %q is closed; the controller that set it has to remove it", name, explain.ErrNotPending, p.Spec.SchedulingGates[0].Name)
	}
	return fmt.Errorf("pod %s: %w: it requests no GPU known to gpuscale, only %s", name, explain.ErrNotFound, requests(p))
}

// requests are the names of what a pod requests.
func requests(p *corev1.Pod) string {
	var names []string
	for name := range resource.PodRequests(p, resource.PodResourcesOptions{}) {
		names = append(names, string(name))
	}
	slices.Sort(names)
	return cmp.Or(strings.Join(names, ", "), "nothing")
}

// withFile calls read with the content of a file, or of in for "-". It unpacks gzip.
func withFile(in io.Reader, name string, read func(io.Reader) error) error {
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // it was only read
		in = file
	}
	plain, err := unpacked(in)
	if err != nil {
		return fmt.Errorf("reading %s: %w", named(name), err)
	}
	return read(plain)
}

// unpacked returns the content of r, decompressed if it is gzip, without a byte order
// mark.
func unpacked(r io.Reader) (io.Reader, error) {
	b := bufio.NewReader(r)
	if magic, _ := b.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unzipped, err := gzip.NewReader(b)
		if err != nil {
			return nil, err
		}
		b = bufio.NewReader(unzipped)
	}
	if mark, _ := b.Peek(3); bytes.Equal(mark, []byte("\ufeff")) {
		_, _ = b.Discard(len(mark)) // Peek has buffered them
	}
	return b, nil
}
