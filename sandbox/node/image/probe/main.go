// Command probe is the program of test pods: it logs, serves HTTP, asks other
// servers and ends on request.
//
//	probe serve ADDRESS     / answers the host's name, POST /exit ends it with status 3
//	probe get URL           writes the answer's body; trusts the cluster's certificates
//	probe echo WORD...      writes the words
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "serve":
		return serve(args[1])
	case len(args) == 2 && args[0] == "get":
		return get(args[1])
	case len(args) > 1 && args[0] == "echo":
		fmt.Println(strings.Join(args[1:], " "))
		return nil
	}
	return fmt.Errorf("no such arguments: %q", args)
}

func serve(address string) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	http.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, name) })
	http.HandleFunc("POST /exit", func(http.ResponseWriter, *http.Request) {
		fmt.Println("ending on request")
		os.Exit(3)
	})
	fmt.Println("serving", name)
	return http.ListenAndServe(address, nil)
}

func get(url string) error {
	ca, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/ca.crt")
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	resp, err := client.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, resp.Status)
	}
	_, err = io.Copy(os.Stdout, resp.Body)
	return err
}
