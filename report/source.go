package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	promodel "github.com/prometheus/common/model"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/gpu/trust"
	"github.com/gpuscale/gpuscale/internal/command"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/promflags"
	"github.com/gpuscale/gpuscale/report/query"
)

// source is the Prometheus to query, and which of its series.
type source struct {
	promflags.Flags
	match   string
	trusted []string
}

func (s *source) add(fs *pflag.FlagSet) {
	s.Add(fs)
	fs.StringVar(&s.match, "match", "", `matchers to add to every selector, such as 'cluster="a"'`)
}

// addTrusted adds the flag for the trusted namespaces.
func (s *source) addTrusted(fs *pflag.FlagSet) {
	fs.StringSliceVar(&s.trusted, "exporter-namespaces", nil, "namespaces whose exporters and autoscaler are trusted; all if empty. Any pod that Prometheus scrapes can expose series of GPUs and costs")
}

// client makes a client from the flags.
func (s *source) client(ctx context.Context) (*prom.Client, error) {
	if errs := trust.Validate("--exporter-namespaces", s.trusted); len(errs) > 0 {
		return nil, command.Usage(errors.Join(errs...))
	}
	return s.Client(ctx)
}

// advices say what to do about errors of Prometheus, by the kind or text of the error. The first match is
// used.
var advices = []struct {
	is     error
	says   []string
	advice string
}{
	{is: query.ErrYoung, advice: "a shorter --since has shorter steps"},
	{is: query.ErrNoData, advice: noSeries},
	{says: []string{"HTTP 401", "HTTP 403"}, advice: "Prometheus refuses the credentials: set --bearer-token-file, --username with --password-file, --header X-Scope-OrgID=… or --sigv4-region"},
	{says: []string{"server gave HTTP response to HTTPS client", "does not look like a TLS handshake"}, advice: "the server does not use TLS: begin the address with http://"},
	{says: []string{"HTTP request to an HTTPS server", "HTTP request was sent to HTTPS port"}, advice: "the server uses TLS: begin the address with https://"},
	{says: []string{"certificate has expired or is not yet valid"}, advice: "renew the server's certificate, or correct the clock of this machine"},
	{says: []string{"x509: "}, advice: "this machine does not trust the server's certificate: set --ca-file to the CA that signed it, or --server-name if the certificate is for another name"},
	{says: []string{"it is a web page"}, advice: "the address answers with a web page: it is not Prometheus, but perhaps Grafana or a login page"},
	{says: []string{"HTTP 405"}, advice: "the server does not allow this method: try --method GET"},
	// The texts are VictoriaMetrics' and vmauth's, with the status 400.
	{says: []string{"HTTP 404", "unsupported path requested", "missing route for"}, advice: "the address has no query API: a path may be missing, such as /prometheus for Mimir or /select/0/prometheus for VictoriaMetrics"},
	{is: prom.ErrPartial, advice: "series may be missing, so the result is not reliable: check which part of the storage does not answer, or select another with --match or --parameter"},
	{says: []string{badMatch}, advice: "--match takes matchers, such as --match 'cluster=\"a\"'"},
	{says: []string{"a redirect, which is not followed"}, advice: "a login page or a proxy redirects the query: use the address that answers directly, with credentials as flags"},
	{says: []string{"HTTP 429"}, advice: "the server limits queries: try again later, and a report with a lower --concurrency or a shorter --since"},
	{is: context.DeadlineExceeded, says: []string{"timed out", "timeout", "deadline exceeded"}, advice: "the server takes too long to answer: set a longer --timeout, a --match that selects fewer series, or, for a report, a shorter --since"},
	{says: []string{"unable to read"}}, // a credentials file; the error names it
	{is: prom.ErrUnavailable, advice: "check that the address is right and reachable from here; to reach a Prometheus in the cluster: kubectl -n monitoring port-forward svc/prometheus-operated 9090"},
}

// noSeries says which scrape jobs to check if there are no series.
var noSeries = fmt.Sprintf("Prometheus has no %s and no %s in the window: check on its page /targets that it scrapes gpuscale-exporter (port 9400) and gpuscale-autoscaler; and what --match and --exporter-namespaces leave out",
	metric.GPUInfo.Name, metric.AutoscalerGPUSeconds.Name)

// badMatch appears only in errors about --match, since our own queries are valid.
const badMatch = "parse error"

// advise adds advice to an error of Prometheus.
func advise(err error) error {
	if err == nil {
		return nil
	}
	if several, ok := errors.AsType[*query.ClustersError](err); ok {
		return command.Usage(fmt.Errorf("%w: select it with --match 'cluster=%q'", err, several.Names[0]))
	}
	for _, a := range advices {
		says := func(s string) bool { return strings.Contains(err.Error(), s) }
		switch {
		case (a.is == nil || !errors.Is(err, a.is)) && !slices.ContainsFunc(a.says, says):
		case a.advice == "":
			return err
		case slices.Contains(a.says, badMatch):
			return command.Usage(fmt.Errorf("%w\n%s", err, a.advice))
		default:
			return fmt.Errorf("%w\n%s", err, a.advice)
		}
	}
	return err
}

// length parses a duration such as 30d, 2w, 12h or 10m.
func length(text string) (time.Duration, error) {
	d, err := promodel.ParseDuration(text)
	if err != nil || d == 0 {
		return 0, fmt.Errorf("%q: want a time such as 30d, 2w, 12h or 10m", text)
	}
	return time.Duration(d), nil
}

// complete registers shell completion for the values of a flag.
func complete(cmd *cobra.Command, flag string, words ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}
