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
	template := &x509.Certificate{Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true}
	key, der := certificate(t, template, nil)
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &Authority{PEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), cert: cert, key: key}
}

// Issue signs a certificate and returns it with its key in PEM. It is valid for a
// client of that name, and for a server of that name or on 127.0.0.1.
func (a *Authority) Issue(t testing.TB, name string, groups ...string) (cert, key []byte) {
	t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name, Organization: groups}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	private, der := certificate(t, template, a)
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

// Pair is Issue for a TLS configuration.
func (a *Authority) Pair(t testing.TB, name string, groups ...string) *tls.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(a.Issue(t, name, groups...))
	if err != nil {
		t.Fatal(err)
	}
	return &pair
}

// Pool returns a pool with only the authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// certificate is signed by the authority; without one, self-signed.
func certificate(t testing.TB, template *x509.Certificate, by *Authority) (crypto.Signer, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if by == nil {
		by = &Authority{cert: template, key: key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, key.Public(), by.key)
	if err != nil {
		t.Fatal(err)
	}
	return key, der
}
