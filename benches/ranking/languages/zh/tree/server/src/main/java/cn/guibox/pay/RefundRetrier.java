package cn.guibox.pay;

import java.util.function.Supplier;

/** 支付渠道返回的结果。 */
enum PayResult { OK, BUSY, REJECTED, UNKNOWN }

/** 向支付渠道申请退款，遇到临时故障自动重试。 */
public final class RefundRetrier {
    private final int maxTries;

    public RefundRetrier(int maxTries) {
        this.maxTries = maxTries;
    }

    /**
     * 提交退款并在渠道繁忙时重试。结果未知的时候绝不能重试，
     * 必须先查询订单状态，否则可能把钱退两遍。
     */
    public PayResult submit(Supplier<PayResult> call, Supplier<PayResult> query) {
        for (int i = 0; i < maxTries; i++) {
            PayResult r = call.get();
            if (r == PayResult.UNKNOWN) {
                return query.get();
            }
            if (r != PayResult.BUSY) {
                return r;
            }
        }
        return PayResult.BUSY;
    }
}
