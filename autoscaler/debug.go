package main

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
)

// tokenHeader has the token of /debug, as an alternative to Authorization, which the API
// server's proxy does not forward.
const tokenHeader = "X-Gpuscale-Token"

// DebugConfig protects /debug, which shows all pods, nodes and quotas.
type DebugConfig struct {
	// TokenFile has the token for requests from outside the pod; requests through
	// "kubectl port-forward" and "kubectl exec" need none. Without a file, requests from
	// outside are refused. It is read at each request, so that it can be rotated.
	TokenFile string `json:"tokenFile"`
}

// guard refuses requests to /debug that lack the token.
type guard struct {
	DebugConfig
	log *slog.Logger
}

func (g guard) protect(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if status, why := g.refuses(r); status != 0 {
			http.Error(w, why, status)
			return
		}
		next(w, r)
	}
}

// refuses returns the status and the reason of a refusal, status 0 for none.
func (g guard) refuses(r *http.Request) (int, string) {
	if local(r) {
		return 0, ""
	}
	if g.TokenFile == "" {
		return http.StatusForbidden, "/debug is served to callers on this pod only: use kubectl port-forward, or set debug.tokenFile in the autoscaler's configuration"
	}
	want, err := token(g.TokenFile)
	if err != nil {
		g.log.Error("reading debug.tokenFile failed", "err", err)
		return http.StatusForbidden, "the autoscaler cannot read its debug.tokenFile; see its log"
	}
	bearer, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	for _, shown := range []string{r.Header.Get(tokenHeader), bearer} {
		if shown != "" && same(shown, want) {
			return 0, ""
		}
	}
	return http.StatusUnauthorized, "/debug requires the token of debug.tokenFile, as a bearer token or in the header " + tokenHeader
}

// forwarded are headers of proxies: a proxy on this pod is local, its clients may not be.
var forwarded = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"}

func local(r *http.Request) bool {
	for _, h := range forwarded {
		if r.Header.Get(h) != "" {
			return false
		}
	}
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && a.Network() == "unix" {
		return true
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	ip := net.ParseIP(host)
	return err == nil && ip != nil && ip.IsLoopback() && loopback(hostOf(r))
}

// hostOf is the name that the client called. Another one than this machine's is a web page whose name
// leads here (DNS rebinding), in a browser beside kubectl port-forward.
func hostOf(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.Host); err == nil {
		return host
	}
	return strings.Trim(r.Host, "[]")
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// same compares in constant time.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// minToken rejects an empty or truncated file.
const minToken = 16

func token(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	t := strings.TrimSpace(string(text))
	if len(t) < minToken {
		return "", fmt.Errorf("%s: %d characters: want at least %d", file, len(t), minToken)
	}
	return t, nil
}
