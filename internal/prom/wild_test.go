package prom_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	signer "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/prometheus/sigv4"

	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/prom/promtest"
	"github.com/gpuscale/gpuscale/internal/require"
)

// An endless answer takes no more memory than allowed.
func TestABombIsNotRead(t *testing.T) {
	block := bytes.Repeat([]byte(" "), 1<<20) // JSON allows spaces before its first bracket
	sent := make(chan int, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := 0
		for ; n < 1000; n++ {
			if _, err := w.Write(block); err != nil {
				break
			}
		}
		sent <- n
	}))
	defer server.Close()
	v, err := client(t, prom.Config{URL: server.URL, MaxResponseBytes: 1 << 20}).Query(t.Context(), "up", time.Time{})
	if !errors.Is(err, prom.ErrTooLarge) || v != nil {
		t.Errorf("%v, %v", v, err)
	}
	if n := <-sent; n == 1000 {
		t.Error("all of it was read")
	}
}

func TestPartialAndInformedAnswers(t *testing.T) {
	const (
		rest = `"data":{"resultType":"vector","result":[{"metric":{},"value":[1,"2"]}]}}`
		info = `PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket: \"nv_inference_queue_duration_us\" (1:21)`
	)
	cases := map[string]int{ // to the number of warnings that count
		`{"status":"success","isPartial":true,` + rest:                          1,
		`{"status":"success","isPartial":false,` + rest:                         0,
		`{"status":"success","infos":["metric might not be a counter"],` + rest: 0,
		`{"status":"success","warnings":["store s2 is down"],` + rest:           1,
		// The info of Prometheus 2.48 to 2.53 about each rate(nv_inference_queue_duration_us[2m]).
		`{"status":"success","warnings":["` + info + `"],` + rest:                                     0,
		`{"status":"success","warnings":["` + info + `","store s2 is down"],` + rest:                  1,
		`{"status":"success","warnings":["a","b","7 more annotations omitted"],` + rest:               3,
		`{"status":"success",` + strings.TrimSuffix(rest, "}") + `,"warnings":["listed at the end"]}`: 1,
	}
	// Fields in alphabetical order, as after a proxy that parses and writes JSON.
	cases[`{"data":{"result":[{"metric":{},"value":[1,"2"]}],"resultType":"vector"},"status":"success"}`] = 0
	for body, warnings := range cases {
		server := promtest.New(t)
		server.Answer(promtest.Response{Body: body})
		v, err := client(t, prom.Config{URL: server.URL}).Query(t.Context(), "up", time.Time{})
		partial, _ := errors.AsType[*prom.PartialError](err)
		if (v == nil) != (warnings > 0) || errors.Is(err, prom.ErrPartial) != (v == nil) || partial != nil && len(partial.Warnings) != warnings {
			t.Errorf("%s: %v, %v", body, v, err)
		}
	}
}

func TestParametersAndMethod(t *testing.T) {
	for _, method := range []string{"", http.MethodPost, http.MethodGet} {
		server := promtest.New(t)
		c := client(t, prom.Config{
			URL: server.URL, Method: method,
			Parameters: map[string]string{"partial_response": "true", "dedup": "true", "nocache": "1"},
		})
		_, err := c.Query(t.Context(), `up{a="b&c=d"}`, time.Time{})
		require.NoError(t, err)
		q := server.Queries()[0]
		want := method
		if want == "" {
			want = http.MethodPost
		}
		if q.Method != want || q.Form.Get("query") != `up{a="b&c=d"}` || q.Form.Get("partial_response") != "true" || q.Form.Get("nocache") != "1" {
			t.Errorf("%s %v", q.Method, q.Form)
		}
		if inURL := q.URL.RawQuery != ""; inURL != (want == http.MethodGet) {
			t.Errorf("%s with the URL's query %q", want, q.URL.RawQuery)
		}
	}
}

// Google's managed Prometheus and Elasticsearch refuse a parameter that they do not know
// (GoogleCloudPlatform/prometheus-engine issue 509; Elastic's page on PromQL's limitations).
func TestParametersAreLeftOut(t *testing.T) {
	server := promtest.New(t)
	c := client(t, prom.Config{URL: server.URL, Parameters: map[string]string{"limit": "", "timeout": "", "latency_offset": "", "partial_response": ""}})
	_, err := c.Query(t.Context(), "up", time.Now())
	require.NoError(t, err)
	if form := server.Queries()[0].Form; len(form) != 2 || !form.Has("query") || !form.Has("time") {
		t.Errorf("%v is sent", form)
	}
	if _, err := prom.New(prom.Config{URL: server.URL, Parameters: map[string]string{"query": ""}}); err == nil {
		t.Error("the query is left out")
	}
}

// The signature that arrives is computed again from the request as it arrived,
// by Amazon's own signer.
func TestRequestsAreSignedForAmazon(t *testing.T) {
	credentials := filepath.Join(t.TempDir(), "credentials")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", credentials)
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"} {
		t.Setenv(name, "")
	}
	var arrived *http.Request
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		arrived = req
		body, _ = io.ReadAll(req.Body)
		_, _ = w.Write([]byte(empty))
	}))
	defer server.Close()
	cfg := prom.Config{URL: server.URL + "/workspaces/ws-1", SigV4: &prom.SigV4{SigV4Config: sigv4.SigV4Config{Region: "eu-west-1", Profile: "monitoring"}}}
	if _, err := prom.New(cfg); err == nil || !strings.Contains(err.Error(), "sigv4") {
		t.Errorf("without credentials: %v", err)
	}
	write(t, credentials, "[monitoring]\naws_access_key_id = KEY\naws_secret_access_key = secret\n")
	_, err := client(t, cfg).Query(t.Context(), "up", time.Time{})
	require.NoError(t, err)
	got := arrived.Header.Get("Authorization")
	if !strings.Contains(got, "Credential=KEY/") || !strings.Contains(got, "/eu-west-1/aps/aws4_request") {
		t.Errorf("Authorization %q", got)
	}
	if want := signature(t, arrived, body, "KEY", "secret"); got != want {
		t.Errorf("Authorization\n%s, not\n%s", got, want)
	}
}

func signature(t *testing.T, arrived *http.Request, body []byte, key, secret string) string {
	t.Helper()
	at, err := time.Parse("20060102T150405Z", arrived.Header.Get("X-Amz-Date"))
	require.NoError(t, err)
	again, err := http.NewRequestWithContext(t.Context(), arrived.Method, "http://"+arrived.Host+arrived.URL.String(), bytes.NewReader(body))
	require.NoError(t, err)
	for _, name := range []string{"Content-Type", "Accept", "Cache-Control"} {
		again.Header.Set(name, arrived.Header.Get(name))
	}
	hash := sha256.Sum256(body)
	err = signer.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: key, SecretAccessKey: secret},
		again, hex.EncodeToString(hash[:]), "aps", "eu-west-1", at)
	require.NoError(t, err)
	return again.Header.Get("Authorization")
}
