package ledger;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;

/** 결제 대행사로 나가는 유일한 관문. 승인 요청은 모두 이곳을 거친다. */
public class PaymentGate {
    private final Map<String, String> finished = new ConcurrentHashMap<>();

    /**
     * 사용자가 결제 단추를 연거푸 눌러도 돈이 한 번만 빠져나가게 한다.
     * 같은 멱등 키로 이미 승인된 건이 있으면 대행사를 부르지 않고 그때의 승인 번호를 돌려준다.
     */
    public String approveOnce(String idempotencyKey, Supplier<String> approve) {
        return finished.computeIfAbsent(idempotencyKey, k -> approve.get());
    }

    /**
     * 대행사의 응답이 시간 안에 오지 않아 결과를 알 수 없을 때, 승인되었는지 조회해 보고
     * 승인된 것이 있으면 취소를 보낸다. 고객은 실패로 알고 있으니 돈을 남겨 두면 안 된다.
     */
    public boolean settleUnknown(String orderId, Supplier<Boolean> wasApproved, Runnable cancel) {
        if (!wasApproved.get()) {
            return false;
        }
        cancel.run();
        finished.remove(orderId);
        return true;
    }

    /** 금액이 클수록 사기 검사가 길어지므로 기다릴 한도를 늘려 잡는다. */
    static Duration timeoutFor(long won) {
        // 백만 원부터는 상대 은행이 추가 심사를 한다
        return won >= 1_000_000 ? Duration.ofSeconds(25) : Duration.ofSeconds(8);
    }
}
