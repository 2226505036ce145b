package conn

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
)

// TLS are the flags of TLS.
type TLS struct {
	cacert, cert, key, sni string
	insecure               bool
}

// Define defines the flags.
func (f *TLS) Define(flags *flag.FlagSet) {
	flags.StringVar(&f.cacert, "cacert", "", "a `file` with the certificates that sign the server's; by default the system's")
	flags.StringVar(&f.cert, "cert", "", "a `file` with this client's certificate")
	flags.StringVar(&f.key, "key", "", "the `file` with the key of -cert")
	flags.StringVar(&f.sni, "sni", "", "the `name` in the server's certificate, if it is not the host's")
	flags.BoolVar(&f.insecure, "insecure", false, "accept any certificate")
}

// Given reports whether any flag is set.
func (f *TLS) Given() bool { return *f != TLS{} }

// Check returns what is wrong with the flags.
func (f *TLS) Check() error {
	if (f.cert == "") != (f.key == "") {
		return cli.Misuse("-cert and -key belong together: the files of a certificate and its key (a client's key is no flag, but an argument)")
	}
	return nil
}

// Set sets what the flags say of a configuration. They are checked.
func (f *TLS) Set(config *tls.Config) error {
	if f.sni != "" {
		config.ServerName = f.sni
	}
	config.InsecureSkipVerify = f.insecure
	if f.cacert != "" {
		text, err := os.ReadFile(f.cacert)
		if err != nil {
			return err
		}
		if config.RootCAs = x509.NewCertPool(); !config.RootCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("-cacert %s has no certificate in the PEM format", f.cacert)
		}
	}
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return fmt.Errorf("-cert and -key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return nil
}

// CertificateAdvice returns what to do about a certificate that a client or a
// server refuses, or "".
func CertificateAdvice(err error) string {
	var (
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   *tls.CertificateVerificationError
	)
	switch {
	case errors.As(err, &host):
		return "The certificate is for another name: give it by -sni."
	case errors.As(err, &authority), errors.As(err, &invalid):
		return "Give the certificates that sign the server's by -cacert."
	case strings.Contains(err.Error(), "remote error: tls: "): // an alert has no type of its own
		return "The server refuses this client's TLS: if it wants a certificate, give it by -cert and -key."
	}
	return ""
}
