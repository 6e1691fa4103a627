package forward

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/transport"
)

const (
	relist   = time.Minute
	maxNames = 1000 // every client of the cluster reads discovery
)

// Names returns the metrics that only the other server has, as of its last good
// answer.
func (f *Forwarder) Names() []string {
	if f == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(*f.names.Load()), f.known)
}

// Run keeps the names up to date until ctx ends.
func (f *Forwarder) Run(ctx context.Context) {
	if f == nil {
		return
	}
	again := time.NewTicker(relist)
	defer again.Stop()
	for {
		if err := f.list(ctx); err != nil && ctx.Err() == nil {
			f.log.Debug("the other server's metrics are not listed", slog.String("server", f.server.Host), slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
	}
}

// list reads the names once. A failure leaves the last good ones.
func (f *Forwarder) list(ctx context.Context) error {
	a, err := f.ask(ctx, f.server.JoinPath("apis", group, version), func(out *http.Request) error {
		out.Header.Set("Accept", "application/json")
		if f.caller { // there is no caller: any authenticated user may list
			transport.SetAuthProxyHeaders(out, "gpuscale-adapter", "", []string{"system:authenticated"}, nil)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if a.code != http.StatusOK {
		return fmt.Errorf("listing metrics: HTTP %d", a.code)
	}
	names, err := parseNames(a.body)
	if err != nil {
		return err
	}
	f.names.Store(&names)
	f.shared.Do(func() {
		both := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !f.known(name) })
		if len(both) > 0 {
			f.log.Warn("external metrics of both servers are served by this one", slog.String("metrics", strings.Join(both, ", ")), slog.String("server", f.server.Host))
		}
	})
	return nil
}

// parseNames reads an APIResourceList. It leaves out names that no request can contain,
// and those after the first thousand in order. KEDA (2.21, pkg/provider) lists one
// placeholder for all of its metrics, which is passed on: the list is not all there is.
func parseNames(raw []byte) ([]string, error) {
	var list metav1.APIResourceList
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("the list of metrics is no APIResourceList: %w", err)
	}
	if list.Kind != "APIResourceList" {
		return nil, fmt.Errorf("the list of metrics is of kind %q, not APIResourceList", list.Kind)
	}
	names := make([]string, 0, min(len(list.APIResources), maxNames))
	for _, r := range list.APIResources {
		if r.Name != "" && len(content.IsPathSegmentName(r.Name)) == 0 {
			names = append(names, r.Name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), maxNames)], nil
}
