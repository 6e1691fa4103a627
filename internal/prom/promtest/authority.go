package promtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/gpuscale/gpuscale/internal/require"
)

// Authority signs certificates for one test.
type Authority struct {
	PEM  []byte
	cert *x509.Certificate
	key  crypto.Signer
}

// NewAuthority returns an authority with its own key.
func NewAuthority(t testing.TB, name string) *Authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	made, err := cert.NewSelfSignedCACert(cert.Config{CommonName: name}, key)
	require.NoError(t, err)
	text, err := cert.EncodeCertificates(made)
	require.NoError(t, err)
	return &Authority{PEM: text, cert: made, key: key}
}

// Issue signs a certificate and returns it with its key in PEM. It is valid for a
// client of that name, and for a server of that name or on 127.0.0.1.
func (a *Authority) Issue(t testing.TB, name string, groups ...string) (certPEM, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		Subject: pkix.Name{CommonName: name, Organization: groups}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}, a.cert, key.Public(), a.key)
	require.NoError(t, err)
	keyPEM, err = keyutil.MarshalPrivateKeyToPEM(key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der}), keyPEM
}

// Pair is Issue for a TLS configuration.
func (a *Authority) Pair(t testing.TB, name string, groups ...string) *tls.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(a.Issue(t, name, groups...))
	require.NoError(t, err)
	return &pair
}

// Pool returns a pool with only the authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}
