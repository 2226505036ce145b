//go:build !js

package main

import (
	"net"
	"net/http"
	"strings"
)

// meantFor reports whether a request was meant for this server. A foreign name that leads here belongs to a site that
// had it changed to this address (DNS rebinding), so that its pages may do what only the demo's own may; an address
// can't be changed so. own is the host that the demo was told to listen on.
func meantFor(r *http.Request, own string) bool {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if address, _, _ := strings.Cut(host, "%"); net.ParseIP(address) != nil {
		return true
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || host != "" && host == strings.ToLower(own)
}

// unknownHost is what the others are answered.
const unknownHost = "This name is none of the demo's: open it as localhost, by an IP address, or by the host of its -addr flag."
