package clientip_test

import (
	"fmt"
	"net/http"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/clientip"
)

func ExampleFinder() {
	ip := core.Must(clientip.New(core.TrustProxies("10.0.0.0/8")))
	h := http.Header{"X-Forwarded-For": {"1.1.1.1, 203.0.113.5, 10.2.2.2"}} // the client wrote 1.1.1.1

	key, _ := ip.Key("10.1.1.1:50000", h.Values) // from our proxy
	fmt.Println(key)
	key, _ = ip.Key("198.51.100.7:50000", h.Values) // from anybody else
	fmt.Println(key)
	key, _ = ip.Key("[2001:db8:1:2:3::4]:50000", h.Values)
	fmt.Println(key)
	// Output:
	// 203.0.113.5
	// 198.51.100.7
	// 2001:db8:1:2::/64
}
