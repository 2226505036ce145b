package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tokenbucket-go/ratelimit/adminlimit"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
)

// Environment variables with credentials, which other users of the machine
// don't see.
const (
	userVariable   = "ADMINLIMIT_USER"
	headerVariable = "ADMINLIMIT_HEADER"
)

// topResult is what top prints.
type topResult struct {
	Replicas []replica   `json:"replicas"` // in the order of the command line
	Policies []topPolicy `json:"policies"` // those that deny, most denials first
}

// replica is one process of a service.
type replica struct {
	URL   string `json:"url"`             // without credentials
	Error string `json:"error,omitempty"` // why it could not be read

	denied []adminlimit.Denials
}

// topPolicy is who is denied most of a policy.
type topPolicy struct {
	Policy  string   `json:"policy"`
	Denied  int64    `json:"denied"`
	Shadow  int64    `json:"shadow,omitempty"` // of these, by shadow mode alone, so allowed
	Seconds float64  `json:"window_seconds"`   // for which the replica counts that has counted longest
	Keys    []topKey `json:"keys"`             // who is denied most

	// Unlisted is how often a key that is not listed was denied at most, and by
	// how much AtLeast may be too low.
	Unlisted int64 `json:"unlisted_at_most"`
}

// topKey is how often a key was denied.
type topKey struct {
	Key     string `json:"key"` // as commands take it
	AtLeast int64  `json:"at_least"`
}

func (r *topResult) Text(w *show.Writer) {
	read := 0
	for _, one := range r.Replicas {
		if one.Error == "" {
			read++
		}
	}
	if read > 0 && len(r.Policies) == 0 {
		w.Line("Nobody is denied by %s.", show.Some(int64(read), "replica"))
	}
	for _, p := range r.Policies {
		shadow := ""
		if p.Shadow > 0 {
			shadow = fmt.Sprintf(" (%s by shadow mode alone, so allowed)", show.Count(p.Shadow))
		}
		w.Line("%s: %s denied%s by %s in %s", show.Text(p.Policy), show.Count(p.Denied), shadow, show.Some(int64(read), "replica"), show.Duration(seconds(p.Seconds)))
		var rows [][]string
		for _, k := range p.Keys {
			rows = append(rows, []string{k.Key, show.Count(k.AtLeast), show.Percent(k.AtLeast, p.Denied)})
		}
		w.Table(2, nil, rows)
		if p.Unlisted > 0 {
			w.Line("  Each may be more by %s, and each other key has at most as many.", show.Count(p.Unlisted))
		}
	}
	for _, one := range r.Replicas {
		if one.Error != "" {
			w.Line("not read: %s: %s", one.URL, one.Error)
		}
	}
}

func newTopCommand() *cobra.Command {
	var (
		t       tlsFlags
		policy  string
		most    int
		timeout time.Duration
	)
	cmd := &cobra.Command{
		Use:   "top URL…",
		Short: "Say who is denied most, summed over the replicas of a service",
		Long: `Say who is denied most, summed over the replicas of a service. Each URL is that of
the adminlimit handler of one process, whose Config has Denied. The
address of a load balancer would answer for another process each time. Who asks
is in ` + userVariable + ` (name:password) or ` + headerVariable + ` (a header field).

Of each key it prints how often it was denied, and its share of the policy's
denials.`,
		Example: "  " + userVariable + "=ann:… ratelimit top http://app-1:8080/admin/limits http://app-2:8080/admin/limits",
		Args:    cobra.MinimumNArgs(1),
	}
	t.define(cmd)
	cmd.Flags().StringVar(&policy, "policy", "", "the `name` of the only policy to show")
	cmd.Flags().IntVar(&most, "most", 10, "how many keys of each policy to show")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "how long an answer may take")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if most < 1 || timeout <= 0 {
			return misuse("--most and --timeout must be above 0")
		}
		client, err := t.client(timeout)
		if err != nil {
			return err
		}
		r := &topResult{Replicas: make([]replica, len(args)), Policies: []topPolicy{}}
		requests := make([]*http.Request, len(args))
		for i, text := range args {
			if requests[i], err = pageRequest(cmd.Context(), text); err != nil {
				return err
			}
			u := requests[i].URL
			r.Replicas[i].URL = u.Scheme + "://" + u.Host + u.Path
			if slices.ContainsFunc(requests[:i], func(other *http.Request) bool { return other.URL.String() == u.String() }) {
				return misuse("%s is given twice, and would count twice", r.Replicas[i].URL)
			}
		}
		var all sync.WaitGroup
		for i := range r.Replicas {
			all.Go(func() { r.Replicas[i].read(client, requests[i]) })
		}
		all.Wait()
		if err := cmd.Context().Err(); err != nil { // it is not the replicas that don't answer
			return err
		}
		unread := r.rank(policy, most)
		if err := printResult(cmd, r); err != nil || unread == 0 {
			return err
		}
		return fmt.Errorf("%d of %s can't be read", unread, show.Some(int64(len(args)), "replica"))
	}
	return cmd
}

// client returns a client that sends credentials to the given hosts alone.
func (f *tlsFlags) client(timeout time.Duration) (*http.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if err := f.set(transport.TLSClientConfig); err != nil {
		return nil, err
	}
	return &http.Client{Transport: transport, Timeout: timeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

// pageRequest returns the request for a page. Its errors don't show the URL or a
// header field, which could have a password.
func pageRequest(ctx context.Context, text string) (*http.Request, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, misuse("each URL must be such as http://app-1:8080/admin/limits")
	}
	query := u.Query()
	query.Set("format", "json")
	query.Set("top", "1000")
	u.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, misuse("each URL must be such as http://app-1:8080/admin/limits")
	}
	request.Header.Set("Accept", "application/json")
	if line := os.Getenv(headerVariable); line != "" {
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "" || strings.ContainsAny(name, " \t\r\n") || strings.ContainsAny(value, "\r\n") {
			return nil, misuse("%s must be such as 'Authorization: Bearer …'", headerVariable)
		}
		request.Header.Set(name, strings.TrimSpace(value))
	}
	if user := os.Getenv(userVariable); user != "" && u.User == nil {
		name, password, ok := strings.Cut(user, ":")
		if !ok {
			return nil, misuse("%s must be NAME:PASSWORD", userVariable)
		}
		request.SetBasicAuth(name, password)
	}
	return request, nil
}

// longestPage is three times a page with 10,000 keys of 128 bytes.
const longestPage = 32 << 20

// read reads what a replica counts.
func (r *replica) read(client *http.Client, request *http.Request) {
	response, err := client.Do(request)
	if err != nil {
		if of, ok := errors.AsType[*url.Error](err); ok { // which shows the URL
			err = of.Err
		}
		r.Error = show.Text(err.Error())
		return
	}
	defer func() { _ = response.Body.Close() }()
	var page adminlimit.State
	switch code := response.StatusCode; {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		r.Error = response.Status + ": say who asks by " + userVariable + " or " + headerVariable
		return
	case code != http.StatusOK:
		r.Error = show.Text(response.Status) + ": give the URL of the adminlimit handler itself"
		return
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, longestPage)).Decode(&page); err != nil {
		r.Error = "the answer is not that of adminlimit: check the URL's path"
	} else if r.denied = page.Denied; r.denied == nil {
		r.Error = "nothing counts who is denied there: the service sets no Denied in adminlimit.Config"
	}
}

// rank adds up what the replicas count, of a policy or of all with "", and
// returns how many could not be read.
func (r *topResult) rank(policy string, most int) (unread int) {
	sums, keys := make(map[string]*topPolicy), make(map[[2]string]int64)
	for _, one := range r.Replicas {
		if one.Error != "" {
			unread++
		}
		for _, d := range one.denied {
			if policy != "" && d.Policy != policy {
				continue
			}
			sum := sums[d.Policy]
			if sum == nil {
				sum = &topPolicy{Policy: d.Policy, Keys: []topKey{}}
				sums[d.Policy] = sum
			}
			sum.Denied, sum.Shadow, sum.Unlisted = sum.Denied+d.Denied, sum.Shadow+d.Shadow, sum.Unlisted+d.Unlisted
			sum.Seconds = max(sum.Seconds, d.Until.Sub(d.From).Seconds())
			for _, k := range d.Keys {
				key, err := show.GivenKey(k.Key) // the page shows it so that it can be given back
				if err != nil {
					key = k.Key
				}
				keys[[2]string{d.Policy, key}] += k.AtLeast
			}
		}
	}
	for of, n := range keys {
		sums[of[0]].Keys = append(sums[of[0]].Keys, topKey{show.Key(of[1]), n})
	}
	for _, sum := range sums {
		slices.SortFunc(sum.Keys, func(a, b topKey) int { return cmp.Or(cmp.Compare(b.AtLeast, a.AtLeast), strings.Compare(a.Key, b.Key)) })
		sum.Keys = sum.Keys[:min(len(sum.Keys), most)]
		r.Policies = append(r.Policies, *sum)
	}
	slices.SortFunc(r.Policies, func(a, b topPolicy) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), strings.Compare(a.Policy, b.Policy))
	})
	return unread
}
