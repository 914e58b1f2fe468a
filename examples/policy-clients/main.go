// Follows one service of a RetryGuard policy server. Go 1.19 or newer, the standard library alone.
package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

// Policy is what the server says about one service. Nil means "off".
type Policy struct {
	MaxRetries       int      `json:"maxRetries"`
	InitialDelayMs   float64  `json:"initialDelayMs"`
	MaxDelayMs       float64  `json:"maxDelayMs"`
	AttemptTimeoutMs *float64 `json:"attemptTimeoutMs"`
	DeadlineMs       *float64 `json:"deadlineMs"`
}

// Client keeps the last answer. A decision of the controller lapses when the server has not confirmed it for as long as
// the server said; then the policy without decisions holds again.
type Client struct {
	url, token        string
	http              http.Client
	mutex             sync.Mutex
	current, original Policy
	etag              string
	lapses            time.Time
}

// New makes a client that has the fallback until the first answer.
func New(server, policy, service, token string, fallback Policy) *Client {
	return &Client{
		url:     fmt.Sprintf("%s/policies/%s?service=%s", server, policy, service),
		token:   token,
		http:    http.Client{Timeout: 65 * time.Second},
		current: fallback, original: fallback,
	}
}

// Current never blocks.
func (c *Client) Current() Policy {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if !c.lapses.IsZero() && time.Now().After(c.lapses) {
		return c.original
	}
	return c.current
}

func (c *Client) get(query, etag string) (*http.Response, error) {
	request, err := http.NewRequest("GET", c.url+query, nil)
	if err != nil {
		return nil, err
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	if etag != "" {
		request.Header.Set("If-None-Match", etag)
	}
	return c.http.Do(request)
}

// Poll asks once, for at most wait seconds, and returns how long to stay away.
func (c *Client) Poll(wait int) (time.Duration, error) {
	const later = 30 * time.Second
	response, err := c.get(fmt.Sprintf("&wait=%d", wait), c.etag)
	if err != nil {
		return later, err
	}
	defer response.Body.Close()
	policy := c.current
	switch response.StatusCode {
	case http.StatusOK:
		if err := json.NewDecoder(response.Body).Decode(&policy); err != nil {
			return later, err
		}
	case http.StatusNotModified:
	default:
		return later, fmt.Errorf("the policy server answered %s", response.Status)
	}
	original, lapses := policy, time.Time{}
	if seconds, err := strconv.ParseFloat(response.Header.Get("x-retryguard-lapse-after"), 64); err == nil {
		lapses = time.Now().Add(time.Duration(seconds * float64(time.Second)))
		original = c.original
		if answer, err := c.get("&original", ""); err == nil {
			_ = json.NewDecoder(answer.Body).Decode(&original)
			answer.Body.Close()
		}
	}
	c.mutex.Lock()
	c.current, c.original, c.lapses = policy, original, lapses
	c.etag = response.Header.Get("etag")
	c.mutex.Unlock()
	seconds, err := strconv.ParseFloat(response.Header.Get("x-retryguard-poll-after"), 64)
	if err != nil {
		return later, nil
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// Follow polls until the program ends.
func (c *Client) Follow() {
	go func() {
		for {
			pause, _ := c.Poll(30)
			time.Sleep(pause)
		}
	}()
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: go run main.go SERVER POLICY SERVICE")
		os.Exit(1)
	}
	client := New(os.Args[1], os.Args[2], os.Args[3], "", Policy{})
	if _, err := client.Poll(0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("maxRetries", client.Current().MaxRetries)
}
