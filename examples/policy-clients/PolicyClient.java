import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Asks a RetryGuard policy server how often to retry one service. Java 11 or newer, the standard library alone. */
public final class PolicyClient {
    private static final Pattern RETRIES = Pattern.compile("\"maxRetries\":(\\d+)");
    private final HttpClient http = HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(5)).build();
    private final URI address;
    private volatile int maxRetries;
    private volatile String etag;
    private volatile String error;

    PolicyClient(String server, String policy, String service, int fallback) {
        address = URI.create(server + "/policies/" + policy + "?service=" + service);
        maxRetries = fallback;
    }

    /** Asks once and returns the seconds until the next question. A server that does not answer changes nothing. */
    double poll() {
        HttpRequest.Builder request = HttpRequest.newBuilder(address).timeout(Duration.ofSeconds(10));
        if (etag != null) {
            request.header("if-none-match", etag);
        }
        try {
            HttpResponse<String> answer = http.send(request.build(), HttpResponse.BodyHandlers.ofString());
            Matcher found = RETRIES.matcher(answer.body());
            if (answer.statusCode() == 200 && found.find()) {
                maxRetries = Integer.parseInt(found.group(1));
                etag = answer.headers().firstValue("etag").orElse(null);
            }
            boolean understood = answer.statusCode() == 200 || answer.statusCode() == 304;
            error = understood ? null : "the policy server answered " + answer.statusCode();
            return Double.parseDouble(answer.headers().firstValue("x-retryguard-poll-after").orElse("30"));
        } catch (java.io.IOException | NumberFormatException failure) {
            error = "the policy server cannot be reached: " + failure;
            return 30;
        } catch (InterruptedException interruption) {
            Thread.currentThread().interrupt();
            return 30;
        }
    }

    int maxRetries() {
        return maxRetries;
    }

    /** Why the last question had no answer; null where it had one. */
    String error() {
        return error;
    }

    public static void main(String[] arguments) {
        if (arguments.length != 3) {
            System.err.println("usage: java PolicyClient.java SERVER POLICY SERVICE");
            System.exit(1);
        }
        PolicyClient client = new PolicyClient(arguments[0], arguments[1], arguments[2], 0);
        client.poll();
        if (client.error() != null) {
            System.err.println(client.error());
            System.exit(1);
        }
        System.out.println("maxRetries " + client.maxRetries());
    }
}
