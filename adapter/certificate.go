package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/pflag"
	adapterbase "sigs.k8s.io/custom-metrics-apiserver/pkg/cmd"

	"github.com/gpuscale/gpuscale/adapter/certificate"
)

// certificateFlags let the adapter issue its serving certificate itself.
type certificateFlags struct {
	host    string
	bundles []string
}

func (f *certificateFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.host, "certificate-for", "", "issue the serving certificate in memory, for SERVICE.NAMESPACE.svc, and another in time; in place of --tls-cert-file")
	flags.StringSliceVar(&f.bundles, "ca-bundles", nil, "with --certificate-for: where its CA is kept current: apiservice/NAME (caBundle), configmap/NAME of the Service's namespace (ca.crt)")
}

// issuer returns the issuer of base's serving certificate; nil without
// --certificate-for.
func (f *certificateFlags) issuer(base *adapterbase.AdapterBase, log *slog.Logger) (*certificate.Issuer, error) {
	if f.host == "" {
		if len(f.bundles) > 0 {
			return nil, errors.New("--ca-bundles: needs --certificate-for")
		}
		return nil, nil
	}
	if base.SecureServing.ServerCert.CertKey.CertFile != "" {
		return nil, errors.New("--certificate-for and --tls-cert-file: give one of them")
	}
	parts := strings.Split(f.host, ".")
	if len(parts) != 3 || parts[2] != "svc" {
		return nil, fmt.Errorf("--certificate-for: %q is not SERVICE.NAMESPACE.svc", f.host)
	}
	owner, err := os.Hostname() // the pod's name
	if err != nil {
		return nil, fmt.Errorf("--certificate-for: %w", err)
	}
	client, err := base.DynamicClient()
	if err != nil {
		return nil, err
	}
	base.SecureServing.ServerCert.CertDirectory = "" // the library would write a pair there
	o := certificate.Options{Host: f.host, Owner: owner, Client: client, Log: log}
	for _, text := range f.bundles {
		b, err := certificate.ParseBundle(text, parts[0], parts[1])
		if err != nil {
			return nil, fmt.Errorf("--ca-bundles: %w", err)
		}
		o.Bundles = append(o.Bundles, b)
	}
	return certificate.New(o)
}
